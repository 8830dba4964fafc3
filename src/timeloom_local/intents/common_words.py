"""Common English words and names that differ by a letter or two from a command word; they are no typing errors."""

import re
from typing import Final

COMMON_WORDS: Final = frozenset(
    re.split(
        r"\s+",
        "ada adds addy adi ads aid ana andy ang ann ant any attach attache attacked attacker attained attracted "
        "avenge averaged averages bred calculated caller calmed captains chance chang changed changes charge cold "
        "collect commune commuted commuter compare compete competed competes complete compose computed computer "
        "computers comte comune connect contacts contain contained container containers corbett corrected "
        "correctly corrupt crate created creates crete current curtains dad deleted differences different dismay "
        "displayed displays divided divides divine documented documents fide fife filed filer fill fills film "
        "films fin finds fine fined fines finn fins fire fires fist five flies flowing fond form frog fund indo "
        "info insect int intro ito lane lanes las lash lass lasted lasts least lest lie lies life lift like likes "
        "lime lin lina lined linen liner ling link links lisa listed listen lists liszt lit live lives lone lost "
        "lust mace made mae mage maker makes male mane mare mate maze mike multiple naked name names nate node "
        "none nope norte nose not noted notes notre numbered opens oven owen paint pan parent pat perfect pet pit "
        "plain plane plank planks planned planner planning plans plant play pleased point pot present prevent "
        "prints programme programs pub pun punt pup puts reads ready real rear red reed reid relate remote removed "
        "removes replaced replaces replay replica results road safe sage sake sale same sane sans sap sas sava "
        "saved saves saxe say score scripts seconds sentenced sentences sep sequence shave shaw shoe shop shore "
        "shot shown shows slap slave slow snap snow soap sore stare stays steep stem stems stew stoke stole stone "
        "stop stops stored stores storey storm story stove submarine summarized swam swamp swan swat sway swore "
        "tae tee tent test tex texts thai than thee them then theo they thin thus thy tie tis toe totals tre "
        "updated updates ward wards wen were wheat white whore width wien wish wit witch wits wood woods wording "
        "wordy wore work works world worlds worm worms worn wound wren writ writer writes wrote "
        "gave given gives tall tells till toll",
    )
)
