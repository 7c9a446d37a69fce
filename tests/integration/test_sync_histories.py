"""Random histories of syncs and of what people do meanwhile, against a model made of dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.integration.test_sync import contents, failing, import_, sync
from toolroll import Tool
from toolroll.model.errors import Conflict, Denied, InvalidInput
from toolroll.model.tools import Definitions
from toolroll.registry.editing.content import content_hash
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(("mail", "note", "page"))
TEXTS = st.sampled_from(("one", "two", "three"))
PLUGINS = st.sampled_from(("p", "p", "q"))
PAYLOADS = st.dictionaries(NAMES, TEXTS, max_size=3)
MODES = st.sampled_from((None, None, "auto", "changed", "all"))


@dataclass
class Known:
    """What a tool must be: its text stands for its content.

    Attributes:
        said: what its source sent last for the text, if the text is people's; else None.
    """

    owner: str
    text: str
    source: str | None
    review: str
    said: str | None = None
    approved: str | None = None
    approved_is_peoples: bool = False
    rejected: str | None = None
    history: list[tuple[str, str]] = field(default_factory=list)

    def become(self, text: str, review: str) -> None:
        self.text, self.review = text, review
        if review == "approved":
            self.approved, self.approved_is_peoples = text, self.said is not None
        self.history.append((text, review))

    def edit(self, text: str, review: str) -> None:
        """What people do: the text is theirs, until it is that of the source again."""
        if text != self.text and (self.owner or self.source is not None):
            said = self.text if self.said is None else self.said
            self.said = None if said == text else said
        self.become(text, review)

    def merged(self, text: str) -> str:
        """The text after the source sent this one."""
        return text if self.said is None else self.text

    def receive(self, text: str, mode: str, is_new: bool = False) -> None:
        """What the source does."""
        is_news = self.said is not None and text not in (self.said, self.text)
        result = self.merged(text)
        self.source, self.said = text, None if self.said is None else text
        if is_new or result != self.text:
            self.become(result, _review(self, result, mode))
        elif is_news:
            self.become(result, self.review)


class Histories(RuleBasedStateMachine):
    """One registry, two plugins and the people."""

    new_database: Callable[[], Database]

    def __init__(self) -> None:
        super().__init__()
        self.database = type(self).new_database()
        self.registry = Registry(self.database, actor="ann")
        self.alive: dict[str, Known] = {}
        self.gone: list[tuple[str, Known]] = []  # in the order of their deletion
        self.modes: dict[str, str] = {}

    def teardown(self) -> None:
        self.database.close()

    # Plugins

    @rule(plugin=PLUGINS, payload=PAYLOADS, mode=MODES)
    def syncs(self, plugin: str, payload: dict[str, str], mode: str | None) -> None:
        definitions = Definitions(tuple(Tool(name, text) for name, text in payload.items()))
        if any(self._is_anothers(name, plugin) for name in payload):
            before = contents(self.database)
            try:
                sync(self.database, definitions, actor="bob", plugin=plugin, review=mode)  # type: ignore[arg-type]
            except Conflict:
                assert contents(self.database) == before
                return
            raise AssertionError("took a tool that is another's")
        sync(self.database, definitions, actor="bob", plugin=plugin, review=mode)  # type: ignore[arg-type]
        self._expect(plugin, payload, mode)
        again = sync(self.database, definitions, actor="bob", plugin=plugin)
        assert not again.is_applied, str(again)

    @rule(plugin=PLUGINS, payload=PAYLOADS, at=st.integers(1, 24))
    def breaks_in_a_sync(self, plugin: str, payload: dict[str, str], at: int) -> None:
        definitions = Definitions(tuple(Tool(name, text) for name, text in payload.items()))
        before = contents(self.database)
        try:
            with failing(self.database, at):
                sync(self.database, definitions, actor="bob", plugin=plugin)
        except (RuntimeError, Conflict):
            assert contents(self.database) == before
        else:
            self._expect(plugin, payload, None)

    def _expect(self, plugin: str, payload: dict[str, str], mode: str | None) -> None:
        mode = self.modes[plugin] = mode or self.modes.get(plugin, "auto")
        for name, text in payload.items():
            known = self.alive.get(name)
            if known is None:
                self._arrive(plugin, name, text, mode)
            elif text != known.source and known.merged(text) != known.rejected:
                known.receive(text, mode)
        for name, known in list(self.alive.items()):
            if known.owner == plugin and name not in payload and known.source is not None:
                known.source = None
                known.history.append((known.text, known.review))
                self.gone.append((name, self.alive.pop(name)))

    def _arrive(self, plugin: str, name: str, text: str, mode: str) -> None:
        known = self._gone(name, plugin)
        if known is None:
            known = self.alive[name] = Known(plugin, text, text, "")
            known.become(text, "pending" if mode == "all" else "approved")
            return
        was_refused_as_new = known.review == "pending" and known.rejected is not None
        if known.merged(text) == known.rejected or (known.source is not None and not was_refused_as_new):
            return
        self.gone.remove((name, known))
        self.alive[name] = known
        known.receive(text, mode, is_new=True)

    def _is_anothers(self, name: str, plugin: str) -> bool:
        """Whether another has the name, or had it until people deleted the tool."""
        if name in self.alive:
            return self.alive[name].owner != plugin
        owners = [
            known.owner
            for at, known in self.gone
            if at == name and (known.owner in ("", plugin) or known.source is not None)
        ]
        return bool(owners) and owners[-1] != plugin

    def _gone(self, name: str, owner: str | None = None) -> Known | None:
        found = [known for at, known in self.gone if at == name and owner in (None, known.owner)]
        return found[-1] if found else None

    # People

    @rule(payload=PAYLOADS)
    def imports(self, payload: dict[str, str]) -> None:
        definitions = Definitions(tuple(Tool(name, text) for name, text in payload.items()))
        if any(name in self.alive and self.alive[name].owner for name in payload):
            before = contents(self.database)
            try:
                import_(self.database, definitions, actor="ann")
            except Conflict:
                assert contents(self.database) == before
                return
            raise AssertionError("took a plugin's tool")
        import_(self.database, definitions, actor="ann")
        for name, text in payload.items():
            known = self.alive.get(name)
            if known is None:
                if self._gone(name, "") is not None:
                    continue  # people deleted it
                known = self.alive[name] = Known("", text, text, "")
                known.become(text, "approved")
            elif text != known.source:
                known.receive(text, "auto")

    @rule(name=NAMES, text=TEXTS)
    def edits(self, name: str, text: str) -> None:
        known = self.alive.get(name)
        if known is None:
            return
        version = self.registry.tool(name).version
        self.registry.update(name, {"description": text}, version=version)
        if text != known.text:
            known.edit(text, known.review)

    @rule(name=NAMES)
    def gives_back(self, name: str) -> None:
        known = self.alive.get(name)
        if known is None:
            return
        version = self.registry.tool(name).version
        if known.said is None:
            with pytest.raises(InvalidInput, match="no field that people changed"):
                self.registry.update(name, {}, version=version, give_back=("description",))
            return
        self.registry.update(name, {}, version=version, give_back=("description",))
        text, known.said = known.said, None
        known.become(text, known.review)

    @rule(name=NAMES)
    def approves(self, name: str) -> None:
        known = self.alive.get(name)
        if known is None:
            return
        flags = self.registry.tool(name).flags
        if known.review == "approved" and not flags:
            with pytest.raises(Conflict):
                self.registry.approve(name)
            return
        self.registry.approve(name)
        known.rejected = None
        known.become(known.text, "approved")

    @rule(name=NAMES)
    def rejects(self, name: str) -> None:
        known = self.alive.get(name)
        if known is None:
            return
        try:
            self.registry.reject(name)
        except Conflict:
            assert known.review == "approved"
            return
        assert known.review != "approved"
        if known.text != known.approved:
            known.rejected = known.text
        if known.approved is None:
            known.history.append((known.text, known.review))
            self.gone.append((name, self.alive.pop(name)))
        else:
            said = known.text if known.said is None else known.said
            known.said = said if known.approved_is_peoples else None
            known.become(known.approved, "approved")

    @rule(name=NAMES, data=st.data())
    def rolls_back(self, name: str, data: st.DataObject) -> None:
        known = self.alive.get(name)
        if known is None:
            return
        version = data.draw(st.integers(1, len(known.history)))
        text, _ = known.history[version - 1]
        try:
            self.registry.rollback(name, version)
        except Denied:
            assert text == known.rejected or (text, "approved") not in known.history
            return
        assert text != known.rejected and (text, "approved") in known.history
        if (text, "approved") != (known.text, known.review):
            known.edit(text, "approved")

    @rule(name=NAMES)
    def deletes(self, name: str) -> None:
        if name in self.alive:
            self.registry.delete(name)
            known = self.alive.pop(name)
            known.history.append((known.text, known.review))
            self.gone.append((name, known))

    @rule(name=NAMES)
    def restores(self, name: str) -> None:
        known = self._gone(name)
        if known is None:
            return
        try:
            self.registry.restore(name)
        except Conflict:
            assert name in self.alive
            return
        assert name not in self.alive
        self.gone.remove((name, known))
        self.alive[name] = known
        known.become(known.text, known.review)

    # What holds

    @invariant()
    def the_registry_is_what_the_model_says(self) -> None:
        with self.database.reading() as connection:
            rows = connection.execute(
                sa.select(tables.tools).where(tables.tools.c.deleted_at.is_(None))
            ).all()
            versions = dict(
                connection.execute(
                    sa.select(tables.tool_versions.c.tool_id, sa.func.count()).group_by(
                        tables.tool_versions.c.tool_id
                    )
                ).all()
            )
        found = {
            row.name: (
                *(row.plugin, row.description, row.review, row.source_hash, row.version),
                row.source_values.get("description"),
            )
            for row in rows
        }
        assert found == {
            name: (
                known.owner,
                known.text,
                known.review,
                known.source and content_hash(Tool(name, known.source)),
                len(known.history),
                known.said,
            )
            for name, known in self.alive.items()
        }
        for row in rows:
            assert row.content_hash == content_hash(Tool(row.name, row.description))
            assert versions[row.tool_id] == row.version
        # Nothing that nobody approved is selected: only by a plugin whose mode is auto, or by people.
        assert all(
            known.approved == known.text for known in self.alive.values() if known.review == "approved"
        )


def _review(known: Known, text: str, mode: str) -> str:
    if mode == "auto":
        return "approved"
    if known.approved is None:
        return "pending"
    return "approved" if text == known.approved else "changed"


def _run(new_database_url: Callable[[str], str], dialect: str, examples: int, steps: int) -> None:
    def new_database(*_: object) -> Database:
        return Database.open(new_database_url(dialect), create=False, migrate=False)

    machine = type("Machine", (Histories,), {"new_database": staticmethod(new_database)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True, database=None
        ),
    )


def test_histories_of_syncs_and_people_go_as_the_rules_say_on_sqlite(
    new_database_url: Callable[[str], str],
) -> None:
    _run(new_database_url, "sqlite", 25, 30)


def test_histories_of_syncs_and_people_go_as_the_rules_say_on_postgresql(
    new_database_url: Callable[[str], str],
) -> None:
    _run(new_database_url, "postgresql", 4, 25)
