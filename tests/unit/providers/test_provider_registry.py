"""Models by their names."""

import sys
from pathlib import Path

import pytest

from timeloom.core.codes import CodedError
from timeloom.providers.registry import model_notice, open_model, register_provider
from timeloom.providers.settings import ModelSettings
from timeloom.testing import ScriptedModel


def test_each_form_of_a_name_opens_its_model(tmp_path: Path) -> None:
    script = tmp_path / "play.yaml"
    script.write_text("- reply: hello\n")
    environ = {"ANTHROPIC_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}
    names = ("anthropic:claude-sonnet-4-5", "openai:qwen3:8b", f"script:{script}")
    models = [open_model(name, environ=environ) for name in names]
    assert [model.name for model in models] == ["anthropic:claude-sonnet-4-5", "openai:qwen3:8b", "script:play.yaml"]
    assert [model.window_tokens for model in models] == [200_000, 128_000, 200_000]
    assert open_model(f"script:{script}", ModelSettings(window_tokens=900)).window_tokens == 900


def test_settings_come_before_the_environment() -> None:
    settings = ModelSettings(key="k", base_url="https://api.openai.com/v1/", window_tokens=5)
    model = open_model("openai:m", settings, environ={"OPENAI_BASE_URL": "not a URL"})
    assert model.window_tokens == 5


@pytest.mark.parametrize("name", ["", "anthropic", "anthropic:", "nobody:m", ":"])
def test_other_names_are_refused_with_the_forms_there_are(name: str) -> None:
    with pytest.raises(CodedError, match=r"anthropic:<id>.*script:<file\.yaml>") as caught:
        open_model(name, environ={})
    assert caught.value.code == "model_unknown"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_missing_key_is_said_with_the_variable_that_sets_it(provider: str) -> None:
    with pytest.raises(CodedError, match=f"set {provider.upper()}_API_KEY") as caught:
        open_model(f"{provider}:m", environ={f"{provider.upper()}_API_KEY": " "})
    assert caught.value.code == "model_unauthorized"


def test_a_base_url_without_a_scheme_is_refused() -> None:
    with pytest.raises(CodedError, match="http://"):
        open_model("openai:m", ModelSettings(base_url="localhost:8000"), environ={})


def test_scripts_of_one_file_name_are_told_apart_by_as_few_folders_as_it_takes(tmp_path: Path) -> None:
    taken: list[str] = []
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "play.yaml").write_text("- reply: hello\n")
        taken.append(open_model(f"script:{tmp_path}/{folder}/play.yaml", environ={}, used_names=taken).name)
    assert taken == ["script:play.yaml", "script:b/play.yaml", "script:c/b/play.yaml"]


def test_a_script_that_is_not_there_is_refused_without_a_host_path(tmp_path: Path) -> None:
    with pytest.raises(CodedError, match=r"none\.yaml") as caught:
        open_model(f"script:{tmp_path}/none.yaml", environ={})
    assert str(tmp_path) not in str(caught.value)


def test_the_key_is_in_no_representation() -> None:
    settings = ModelSettings(key="sk-secret", base_url="http://127.0.0.1:1")
    assert "sk-secret" not in f"{settings!r} {open_model('anthropic:m', settings)!r}"


PACKAGE = """
from timeloom.providers.registry import Provider
from timeloom.testing import ScriptedModel

provider = Provider(open=lambda identity, settings: ScriptedModel([], name=f"acme:{identity}"), notice="Acme is new.")
other = "not a provider"


def factory(name, settings):
    return ScriptedModel([], name=f"plain:{name}")
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a provider, and an entry point that names something else."""
    (tmp_path / "acme_models.py").write_text(PACKAGE)
    metadata = tmp_path / "acme_models-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-models\nVersion: 1\n")
    points = "acme = acme_models:provider\nplain = acme_models:factory\n"
    points += "broken = acme_models:other\nopenai = acme_models:provider\n"
    (metadata / "entry_points.txt").write_text(f"[timeloom.providers]\n{points}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.mark.usefixtures("acme")
def test_an_installed_package_offers_models_under_its_prefix() -> None:
    assert open_model("acme:large", environ={}).name == "acme:large"
    assert model_notice("acme:large") == "Acme is new."
    assert model_notice("openai:m") == ""


@pytest.mark.usefixtures("acme")
def test_an_entry_point_that_names_no_provider_is_refused() -> None:
    with pytest.raises(CodedError, match="acme_models:other"):
        open_model("broken:m", environ={})


@pytest.mark.usefixtures("acme")
def test_a_package_cannot_replace_a_built_in_provider() -> None:
    assert open_model("openai:m", ModelSettings(key="k"), environ={}).name == "openai:m"


@pytest.mark.usefixtures("acme")
def test_an_entry_point_may_name_a_plain_factory() -> None:
    assert open_model("plain:large", environ={}).name == "plain:large"


def test_a_registered_factory_opens_the_names_of_its_prefix() -> None:
    register_provider("lodge", lambda name, settings: ScriptedModel([], name=f"lodge:{name}:{settings.window_tokens}"))
    assert open_model("lodge:small", ModelSettings(window_tokens=7), environ={}).name == "lodge:small:7"
    with pytest.raises(CodedError, match="'lodge' is registered already"):
        register_provider("lodge", lambda name, _: ScriptedModel([], name=name))


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        ("", "not a provider prefix"),
        ("Acme", "not a provider prefix"),
        ("a:b", "not a provider prefix"),
        ("openai", "is built in"),
        ("groq", "is built in"),
        ("acme", "offers 'acme' as acme_models:provider"),
    ],
)
def test_prefixes_that_are_malformed_or_taken_are_refused(prefix: str, why: str) -> None:
    with pytest.raises(CodedError, match=why):
        register_provider(prefix, lambda name, _: ScriptedModel([], name=name))
