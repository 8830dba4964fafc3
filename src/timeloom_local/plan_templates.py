"""General steps of a plan, by the kind of its goal.

The small language model is not asked: for “cleaning the garage” it wrote “Buy a new car”.
"""

import re
from typing import Final

MIN_STEPS: Final = 2


def general_steps(goal: str) -> list[str]:
    """Return the steps of a plan for a goal; as many as the goal asks for, if there are so many."""
    wanted = _COUNT.search(goal)
    name = _COUNT.sub("", goal).strip(" ,.") or "it"
    name = " ".join(name.split())[:_MAX_GOAL_CHARS]
    steps = next((steps for pattern, steps in _KINDS if pattern.search(name)), _OTHER)
    count = _NUMBERS.get(wanted[1].lower()) or int(wanted[1]) if wanted else len(steps)
    return [step.format(name) for step in steps[: max(MIN_STEPS, count)]]


_MAX_GOAL_CHARS: Final = 80
_NUMBERS: Final = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_COUNT: Final = re.compile(r"\s*\b(?:in|with|of)?\s?(two|three|four|five|six|\d)[ -]steps?\b", re.IGNORECASE)
_OTHER: Final = (
    "Write down what “{0}” needs",
    "Decide when to do it, and who helps",
    "Gather what is needed",
    "Do it, one part after the other",
    "Check the result",
    "Note what to do better next time",
)
_KINDS: Final = tuple(
    (re.compile(rf"\b(?:{words})\w*\b", re.IGNORECASE), steps)
    for words, steps in (
        (
            "trip|travel|holiday|vacation|weekend|journey|hik|tour|visit|camping|cruise",
            (
                "Choose the dates and the budget for “{0}”",
                "Book the way there and back",
                "Book a place to stay",
                "List what to see and do",
                "Pack, and check the tickets and papers",
                "Tell somebody the route",
            ),
        ),
        (
            "party|birthday|wedding|dinner|picnic|event|celebrat|barbecue|festival|conference|meeting|reunion",
            (
                "Choose the date, the place and the budget for “{0}”",
                "Make the list of guests and invite them",
                "Plan food, drinks and music",
                "Buy and prepare everything",
                "Set up on the day, and tidy up afterwards",
                "Thank the guests and helpers",
            ),
        ),
        (
            "learn|study|studies|exam|practi|course|language|train for|get fit|thesis",
            (
                "Say what you want to be able to do after “{0}”",
                "Find a course, a book or a teacher",
                "Set fixed times in the week",
                "Practise, and repeat what was hard",
                "Test yourself at the end of each week",
                "Adjust the next weeks",
            ),
        ),
        (
            "mov|renovat|clean|paint|repair|build|tidy|declutter|garden|launch|sell|open|write|novel|project",
            (
                "List the parts of “{0}”",
                "Get the tools, material and help for it",
                "Do the parts in order, the largest first",
                "Check each part when it is done",
                "Clear up and finish",
                "Note what is left for later",
            ),
        ),
    )
)
