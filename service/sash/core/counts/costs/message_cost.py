"""What a message costs: the one rule for a model and a form, applied to one row of numbers or to the columns of many.

::

    row ──_as_sent──▶ the numbers as the form sends them ──_in_model──▶ tokens of each text ──▶ cost, in the model's tokens

A text's tokens are those of the model's encoding, those that its own vocabulary counted (``own_tokens``), or an estimate.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import Final

from sash.core.counts.measures.rows import Row, form_number
from sash.core.counts.measures.sounds import HEARD_A_SECOND
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, ROLES, SYSTEM, TOOL, USER, Rules
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.text import Pair, both, text_tokens
from sash.core.counts.text.numbers import ONE, Arithmetic, Number
from sash.core.counts.text.unicode_scripts import MARKS_APART, Mix, family_tokens
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.owed_reasoning import BLANK, fills_reasoning
from sash.core.providers.messages.reasoning_members import CONTENT
from sash.core.providers.openai.chat_mends import hears
from sash.core.providers.openai.openai import OPENAI
from sash.core.providers.openai.server_mends import APART, ARGUMENTS, NAMED, OWING, SILENT, SINGLE, refused_by
from sash.core.providers.writing.turns import NOTHING_SAID

LIST_BEGINS, LIST_ENDS = 1 << 32, 1 << 33
"""Bits that mark the first and the last result of several calls; a record's stored flags are below them."""
COLUMNS: Final = ("0", "1")
"""The ends of the names of a text's tokens in o200k_base and in cl100k_base."""
_KINDS: Final = frozenset({"plain", "blocks", "signatures"})
_ARGUMENTS: Final = frozenset({"call_arguments", "call_objects"})
_OF_CALLS: Final = frozenset(
    {"call_arguments", "call_objects", "call_names", "bare_names", "together", "together_objects"}
)
_OF_VENDORS: Final = frozenset({"call_arguments", "call_objects", "call_names", "name", "unpriced"})
"""Texts beside a message's own that ``VendorRules`` price."""
_SPOKEN: Final = _OF_CALLS | {"name", "listed", "opens_list", "closes_list"}
"""Texts whose tokens are among those that the model's own vocabulary counted."""
_BESIDE_TEXT: Final = {name: (name + "0", name + "1") for name in sorted(_SPOKEN | {"unpriced"})}
_TEXTS: Final = _BESIDE_TEXT | {"text": ("text0", "text1")}
_UNBOUNDED: Final = 2**53
"""The bytes assumed for texts that a message's mix does not measure: names, unknown members, escaped results."""
_GUESSES: Final = frozenset({"estimated", "unpriced0", "form", "pictured0", "spoken0", "has_name"})
"""Numbers of a message that may make its cost a guess."""
_LISTED_NOTHING: Final = 3
"""Tokens of an empty result in the list that answers several calls: ``[""]``."""
_WORDLESS: Final[dict[Kind, int]] = {"empty_question": USER, "empty_result": TOOL}
"""The role of the messages that each kind of fact refuses without words."""
_LONGEST_NAME: Final = 256
"""Bytes of the longest name."""
_NAME_MARKS: Final = 32
"""Bytes of marks that bound what an estimate adds for a name: it rounds twice, and a name may have many underscores."""
_LONG_TOKEN: Final = 8
"""Bytes of each token of a line, at most."""
_JOINED: Final = 2
"""Tokens, beside a quarter of the line's, that an estimate may be higher for a text and a line together than for both."""
_ROUNDED: Final = 2
"""Tokens by which the estimates of two messages are rounded up more than that of one."""
_ROUNDED_CALL: Final = 3
"""Tokens that rounding may add to an estimate when a call gets a message of its own: one for its arguments, and two for its
name, which counts twice."""
_NAMED: Final = 3
"""Tokens that a name costs beside its own where it is sent as text: two for the ": " behind it, and one because the text
after it may split into more tokens there."""
_FOUND: Final = 0.36
"""Tokens of a character of a search's sealed results, which are sent back to Claude: 2 bills."""
_REASONING: Final = ("native_reasoning0", "reasoning_sealed", "reasoning_images", "texts_sealed")
_SEALED_CHARACTERS: Final = 4
"""Characters of sealed content for each token. Base64 of text has 5 or more, so this errs high."""


def message_cost(row: Row, model: Model, by: Arithmetic, *, parallel: Number = 0, own_tokens: Number = None) -> Number:
    """Return a message's tokens for ``model``, without reasoning.

    ``parallel`` is not 0 for a result of several parallel calls, and has the bits LIST_BEGINS and LIST_ENDS. ``own_tokens``
    are the tokens of all that the message says in the model's own vocabulary, -1 where they are not counted.
    """
    sent_in = PROVIDERS[model.format]
    sent = _as_server_reads(row, model, by) if sent_in.is_chat_form else _as_sent(row, model, sent_in, by)
    texts = _in_model(sent, model, by, own_tokens)
    if isinstance(model.rules, VendorRules):
        cost = _vendor_cost(sent, texts, model, model.rules, by)
        if sent_in.media_apart and "pictured0" in row:
            cost += _media_apart(row, model, by)
        cost = by.ceil(cost * model.margin)
    else:
        cost = _listed_cost(sent, texts, model, by, parallel)
        if sent_in.media_apart and "pictured0" in row:
            cost += _media_apart(row, model, by)
        if "unfitted0" in sent:
            cost += _unfitted(sent, model, by)
        cost = cost if model.margin == 1.0 else by.ceil(cost * model.margin)
    if sent_in.is_chat_form:
        return _with_more(cost, row, model, by)
    if fills_reasoning(model.format, model.provider, model.known_as):
        cost = cost + _filled(row, model, by)
    return by.where(is_left_out(row, model.format, by), 0, cost)


def _filled(row: Row, model: Model, by: Arithmetic) -> Number:
    """The tokens of a blank before calls without reasoning, in another form than chat completions."""
    blank = by.ceil(_reasoning_cost(_as_thinking(_blank(), by), frozenset({"plain"}), model, by) * model.margin)
    has_own = by.where(_is_native(row, model.format), row["native_reasoning0"], row["plain0"] + row["blocks0"])
    return by.where((row["calls"] > 0) & (has_own == 0), blank, 0)


@cache
def _blank() -> Row:
    """The numbers of reasoning that is a space."""
    return Row(zip(("plain0", "plain1"), text_tokens({CONTENT: BLANK}), strict=True))


def _as_server_reads(row: Row, model: Model, by: Arithmetic) -> Row:
    """The numbers of a message in chat completions, as servers of the model take it."""
    sent = _as_chat(row, model, by) if "pictured0" in row else Row(row)
    refused = refused_by(model.provider, model.known_as)
    if "spoken0" in row and not hears(model.provider, model.known_as):
        _add_spoken(sent, row, by)
    if "has_call_objects" in row and refused & ARGUMENTS:
        _with_objects(sent, model, by)
    if refused & SILENT:
        _with_words(sent, USER, model, by)
    if "has_name" in row and refused & NAMED:
        sent["has_name"] = sent["has_name"] * ((row["role"] == USER) | (row["role"] == FUNCTION))
    return sent


def _with_more(cost: Number, row: Row, model: Model, by: Arithmetic) -> Number:
    """The cost with that of what a server is sent beside the message: a blank for calls without reasoning, and a message
    around each further call."""
    refused, calls = refused_by(model.provider, model.known_as), row["calls"]
    if refused & OWING:
        blank = by.ceil(_reasoning_cost(_blank(), PROVIDERS[model.format].carries, model, by) * model.margin)
        cost = cost + by.where((calls > 0) & (row["plain0"] == 0), blank, 0)
    if refused & APART:
        words = max(_nothing_said()) * model.scale + (model.rules.role_costs[ASSISTANT] + model.rules.role_costs[USER])
        cost = cost + by.where((calls > 0) & (row["text0"] > 0), by.ceil(words * model.margin) + _ROUNDED, 0)
    if refused & SINGLE:
        around = by.ceil(model.rules.role_costs[ASSISTANT] * model.margin) + _ROUNDED_CALL
        is_signed = row["signatures0"] > 0  # a signature is rounded up with its call
        cost = cost + by.where(calls > 1, (calls - 1) * (around + is_signed), 0)
    return cost


def _add_spoken(sent: Row, row: Row, by: Arithmetic) -> None:
    """Add the words of a spoken reply, which are its text where it has no other."""
    for column in COLUMNS:
        sent["text" + column] = sent["text" + column] + by.where(row["text0"] == 0, row["spoken" + column], 0)


def _media_apart(row: Row, model: Model, by: Arithmetic) -> Number:
    """The message around a result's pictures and files, where they are sent behind the result; an estimate is rounded up in
    each of the two."""
    has_media = (row["pictured0"] + row["pictured1"]) != 0
    if not PROVIDERS[model.format].replies_are_items:  # they are sent as they came
        has_media = has_media & (row["form"] != form_number(model.format))
    return by.where(has_media, model.rules.role_costs[USER] + (model.ratios is not None), 0)


def _unfitted(sent: Row, model: Model, by: Arithmetic) -> Number:
    """What names cost more as they came than as they were measured: as OpenAI gets them.

    Chat completions get them so for OpenAI's own models. Responses get the names of functions so; a speaker's is text there.
    """
    sent_in = PROVIDERS[model.format]
    if sent_in.is_chat_form and model.provider == OPENAI.maker:
        return 0
    more = by.where(_is_name_counted(sent, model), 0, _pair(sent, "unfitted", None, model, by))
    return by.where(sent["role"] <= USER, more, 0) if sent_in.has_openais_items else more


# ---- as the form sends it


def _as_chat(row: Row, model: Model, by: Arithmetic) -> Row:
    """The numbers of a message in chat completions: a line in place of each picture or file of a result."""
    sent = Row(row)
    is_told = (row["pictured0"] != 0) | (row["pictured1"] != 0)
    for name in ("images", "estimated", "pages", "paged", "heard", "sounded"):
        if name in row:
            sent[name] = by.where(is_told, 0, row[name])
    for column in COLUMNS:
        told = row["pictured" + column]
        more = told + by.where(is_told & (model.ratios is not None), told // 4 + _JOINED, 0)
        sent["text" + column] = row["text" + column] + more
        if "listed" + column in row:
            listed = row["listed" + column]
            sent["listed" + column] = listed + by.where(listed != 0, more, 0)
    sent["more_said"] = row["more_said"] + 2 * row["pictured0"]
    if "parts" in row and is_told:
        del sent["parts"]  # the texts and the lines are one string
    if "mix" in row:
        sent["mix"] = _behind(row["mix"], by.where(is_told, row["pictured0"] * _LONG_TOKEN, 0), by)
    return sent


def _as_sent(row: Row, model: Model, sent_in: Provider, by: Arithmetic) -> Row:
    """The numbers of a chat message in another form.

    Legacy calls and results become ordinary ones. An assistant's name is left out; another name is text before the
    message's own.
    """
    sent = Row(row)
    if "has_name" in row or "legacy_call" in row:
        _rename(sent, row, model, by)
    is_native = row["form"] == form_number(model.format)
    if "spoken0" in row:
        _add_spoken(sent, row, by)
    if "parts" in sent and not is_native:
        _join(sent, sent_in)
    if sent_in.parts_apart:
        _part(sent, model, by)
    for role in _filled_roles(model.format, model.provider, model.known_as):
        _with_words(sent, role, model, by)
    return sent


@lru_cache(maxsize=1024)
def _filled_roles(form: str, maker: str, name: str) -> tuple[int, ...]:
    """Return the roles whose messages need words in this form, which is not that of chat completions."""
    values = meet(form, maker, name).values
    return tuple(role for kind, role in _WORDLESS.items() if kind in values)


def _join(sent: Row, sent_in: Provider) -> None:
    """Join texts that the form sends as one string. Where it may send several, the dearer way counts."""
    joins = sent_in.one_string.get(ROLES[sent["role"]])
    is_apart = sent["estimated"] or (
        sent["has_images"] and sent["role"] == USER
    )  # a text file is no part of the string
    if joins == "always" and not is_apart:
        del sent["parts"]
    elif joins:
        sent["may_join"] = 1


def _rename(sent: Row, row: Row, model: Model, by: Arithmetic) -> None:
    """Change legacy calls and results to ordinary ones, and names to text."""
    role, has_name = row["role"], row["has_name"] != 0
    is_changed = has_name | (row["legacy_call"] != 0)
    is_answer, is_other = is_changed & (role == FUNCTION), is_changed & (role != FUNCTION)
    is_named = has_name & (role <= USER)
    sent["role"] = by.where(is_answer, TOOL, role)
    sent["legacy_call"] = by.where(is_other, 0, row["legacy_call"])
    sent["has_name"], sent["more_said"] = is_named, by.where(is_named, _NAMED, 0)
    is_compact = is_other & (row["has_call_compact"] != 0)
    is_counted = _is_name_counted(row, model)
    for column in COLUMNS:
        # A name that repeats its role was measured one token lower than its text.
        name = by.most(1, row["name" + column]) + _NAMED
        name = by.where(is_counted, row["named" + column] + (model.ratios is not None), name) - model.rules.name
        sent["name" + column] = by.where(is_named, name, 0)
        arguments = "call_arguments" + column
        sent[arguments] = by.where(is_compact, row["call_compact" + column], row[arguments])
    size, marks = by.where(is_named, _LONGEST_NAME, 0), by.where(is_named, _NAME_MARKS, 0)
    if "mix" in row:
        sent["mix"] = _behind(row["mix"], size, by, marks)
    if "parts" in row:
        sent["parts"] = [(*pair, mix and _behind(mix, size, by, marks)) for *pair, mix in row["parts"]]


def _is_name_counted(row: Row, model: Model) -> Number:
    """Whether the tokens that a name adds to a text are known: the form sends both as one string, or counts two parts as
    one. An estimate rounds each part up."""
    sent_in = PROVIDERS[model.format]
    is_one = sent_in.one_string.get("user") == "always" or not (sent_in.parts_apart or model.ratios is not None)
    return (row["named0"] != 0) & is_one


def _behind(mix: Mix, size: Number, by: Arithmetic, marks: Number = 0) -> Mix:
    """The mix of a text that is sent as one with another of at most this ``size`` in bytes, and as dear as if it had so many
    bytes of ``marks`` besides."""
    characters = by.where(mix.characters > 0, mix.characters + size, 0)
    longer = by.where(mix.size > 0, mix.size + size + marks, 0)
    return Mix(longer, mix.digits, mix.shares, characters, mix.marks, mix.capitals)


def _part(sent: Row, model: Model, by: Arithmetic) -> None:
    """Change the numbers to those of a form that counts parts apart, and has arguments as objects.

    A result's place in the list of results does not change its cost there, because the form may order results in another
    way. A blank result costs as much as an empty one. ``VendorRules`` price neither lists nor calls together.
    """
    if "has_call_objects" in sent:
        _with_objects(sent, model, by)
    if "listed0" in sent and not isinstance(model.rules, VendorRules):
        is_listed = (sent["listed0"] != 0) | (sent["listed1"] != 0)
        for column in COLUMNS:
            opens, closes = sent.pop("opens_list" + column, 0), sent.pop("closes_list" + column, 0)
            whole = by.most(_LISTED_NOTHING, sent["listed" + column] + opens + closes)
            sent["listed" + column] = by.where(is_listed, whole, 0)
    if "parts" in sent:
        apart = [sum(part[column] for part in sent["parts"]) for column in (0, 1)]
        if _is_whole(sent):  # a text may have more tokens than its parts
            apart = [max(tokens, sent["text" + column]) for tokens, column in zip(apart, COLUMNS, strict=True)]
        sent["text0"], sent["text1"] = apart


def _is_whole(sent: Row) -> bool:
    """Whether a text with parts may be sent as one: its form joins them, or it is a paragraph beside blank lines."""
    return bool(sent["may_join"]) or len(sent["parts"]) == 1


def _with_objects(sent: Row, model: Model, by: Arithmetic) -> None:
    """Change the numbers to those of arguments that are sent as objects. ``VendorRules`` count them so themselves."""
    if model.vocabulary is not None:
        # These tokens are counted in our encodings. A vendor's own vocabulary may need three more for a call.
        has = sent["has_call_objects"] != 0
        more = by.most(*(sent["call_objects" + column] - sent["call_arguments" + column] for column in COLUMNS))
        sent["more_said"] += by.where(has & (more > 0), more + 3 * sent["calls"], 0)
    if not isinstance(model.rules, VendorRules):
        _choose(sent, "call_objects", "call_arguments", by)
        _choose(sent, "together_objects", "together", by)


def _with_words(sent: Row, role: int, model: Model, by: Arithmetic) -> None:
    """Add the words that are sent in place of nothing in a message of this role."""
    is_silent = (sent["role"] == role) & (sent["text0"] == 0) & (sent["has_images"] == 0) & (sent["estimated"] == 0)
    for column, tokens in zip(COLUMNS, _nothing_said(), strict=True):
        sent["text" + column] = sent["text" + column] + by.where(is_silent, tokens, 0)
    if model.vocabulary is not None:
        sent["more_said"] = sent["more_said"] + by.where(is_silent, model.vocabulary.count(NOTHING_SAID), 0)


@lru_cache(maxsize=1)
def _nothing_said() -> tuple[int, int]:
    return both(NOTHING_SAID)


def _choose(sent: Row, name: str, other: str, by: Arithmetic) -> None:
    """Put the text ``name`` in the place of the ``other``, where a message has it."""
    has = sent["has_" + name] != 0
    for column in COLUMNS:
        sent[other + column] = by.where(has, sent[name + column], sent[other + column])


# ---- in the model's tokens


def _in_model(sent: Row, model: Model, by: Arithmetic, own_tokens: Number) -> Row:
    """The tokens of each text."""
    if model.ratios is None:
        column = 0 if isinstance(model.rules, VendorRules) else model.column
        return Row([(name, sent[pair[column]]) for name, pair in _TEXTS.items() if pair[column] in sent])
    mix, calls_mix, ratios = sent.get("mix"), sent.get("calls_mix"), model.ratios
    if "parts" in sent:
        text = sum(family_tokens(a, b, part_mix, ratios) for a, b, part_mix in sent["parts"])
        if ratios in MARKS_APART and sent["role"] in (SYSTEM, DEVELOPER):
            text += len(sent["parts"]) - 1  # a blank line between two paragraphs; elsewhere rounding up covers it
        if _is_whole(sent):
            text = max(text, family_tokens(sent["text0"], sent["text1"], mix, ratios))
        sent["apart0"] = sent["apart1"] = 0  # what items cost apart is in their parts
    else:
        text = family_tokens(sent["text0"], sent["text1"], mix, ratios, by=by)
    texts = Row(text=text)
    arguments = by.most(1, by.where(sent["has_call_objects"] != 0, sent["call_objects0"], sent["call_arguments0"]))
    whole = by.most(1, sent["text0"])
    is_vendors = isinstance(model.rules, VendorRules)
    for name, pair in _BESIDE_TEXT.items():
        if pair[0] not in sent or (is_vendors and name not in _OF_VENDORS):
            continue
        o200k, cl100k = sent[pair[0]], sent[pair[1]]
        of_mix, of = (calls_mix, arguments) if name in _OF_CALLS else (mix, whole)
        part = by.least(1.0, o200k / of)
        estimate: Callable[..., Number] = family_tokens if name in _ARGUMENTS else beside_text
        texts[name] = estimate(o200k, cl100k, of_mix, ratios, part, by)
    if own_tokens is not None and model.vocabulary is not None:
        is_said, more = own_tokens >= 0, sent["more_said"]
        if "spoken0" in sent:  # the counted text does not have it
            more = more + by.where(sent["spoken0"] != 0, text, 0)
        texts["text"] = by.where(is_said, own_tokens + more, text)
        texts |= {name: by.where(is_said, 0, tokens) for name, tokens in texts.items() if name in _SPOKEN}
    return texts


def beside_text(
    o200k: Number, cl100k: Number, mix: Mix | None, ratios: str, part: Number = 1.0, by: Arithmetic = ONE
) -> Number:
    """Return the tokens of a text, estimated with the mix of another text beside it.

    The numbers of the other text do not count, and neither its bytes nor its scripts make this text cheaper than Latin text.
    """
    tokens = family_tokens(o200k, cl100k, None, ratios, part, by)
    if mix is None or not len(mix.shares):
        return tokens
    unbounded = Mix(by.where(mix.size > 0, _UNBOUNDED, 0), mix.digits * 0, mix.shares, mix.characters * 0)
    return by.most(tokens, family_tokens(o200k, cl100k, unbounded, ratios, part, by))


def _pair(row: Row, name: str, mix: Mix | None, model: Model, by: Arithmetic, part: Number = 1.0) -> Number:
    """The tokens of a text that the model's own vocabulary does not count."""
    o200k, cl100k = row[name + "0"], row[name + "1"]
    if model.ratios is None:
        return cl100k if model.column else o200k
    return family_tokens(o200k, cl100k, mix, model.ratios, part, by)


# ---- the cost


def _vendor_cost(sent: Row, texts: Row, model: Model, rules: VendorRules, by: Arithmetic) -> Number:
    """The tokens for a vendor whose tokeniser is not public, before the margin, with the wrapping of calls' results."""
    role, calls = sent["role"], sent["calls"]
    cost = by.pick(rules.role_costs, role) + texts["text"] * by.where(role == TOOL, rules.result, 1.0)
    if "unfitted0" in sent:
        cost += _unfitted(sent, model, by)
    names = rules.names * texts["call_names"]
    if "has_name" in sent:
        names = names + by.where(sent["has_name"] != 0, texts["name"] + rules.name, 0)
    arguments = by.where(sent["has_call_objects"] != 0, texts["call_objects"], texts["call_arguments"])
    cost += names + arguments + texts["unpriced"]
    if "calls" in sent:
        cost += calls * (rules.call + by.where(calls > 1, rules.together, 0))
        cost += by.least(arguments * rules.tagged, calls * rules.most_tags)
    if "estimated" in sent:
        cost += (sent["estimated"] - sent["paged"] - _sounded(sent, rules)) * model.scale / model.margin
        cost += _heard_cost(sent, rules, by)
        cost += _pages_cost(sent, rules, by)
        if rules.lone_page is not None:
            cost += by.where(sent["pages"] == 1, rules.lone_page - rules.page, 0)
    if "form" in sent:
        beside = (
            _pair(sent, "rest", None, model, by)
            + _pair(sent, "apart", None, model, by)
            + sent["rest_sealed"] * _FOUND
            + sent["beside_estimated"]
            + sent["wrappings"] * rules.message
            + sent["beside_images"]
        )
        cost += by.where(_is_native(sent, model.format), beside, 0)
    return cost + sent["images"]


def _sounded(sent: Row, rules: Rules) -> Number:
    """The part of the estimate for sounds that the family bills by their length."""
    return sent["sounded"] if rules.heard else 0


def _heard_cost(sent: Row, rules: Rules, by: Arithmetic) -> Number:
    """The tokens of sounds by their length; the last one counts once it has begun, if the family bills it so."""
    if "heard" not in sent or not rules.heard:
        return 0
    heard = sent["heard"]
    if rules.heard_span:
        span = rules.heard_span * HEARD_A_SECOND
        heard = by.ceil(heard / span) * span
    tokens = heard * rules.heard / HEARD_A_SECOND
    return by.ceil(tokens) if rules.heard_begun else -by.ceil(-tokens)


def _pages_cost(sent: Row, rules: Rules, by: Arithmetic) -> Number:
    """The tokens of PDFs' pages, each as a picture, and what is estimated from the files' bytes, at most a full page's."""
    if "pages" not in sent:
        return sent["paged"]
    return sent["pages"] * rules.page + by.least(sent["paged"], sent["pages"] * rules.page_words)


def _listed_cost(sent: Row, texts: Row, model: Model, by: Arithmetic, parallel: Number) -> Number:
    """The tokens for a model of chat completions or Responses, before the margin."""
    rules, role, text = model.rules, sent["role"], texts["text"]
    result = text
    if not rules.each_call and by.some(parallel):
        listed = by.where(texts["listed"] != 0, texts["listed"], text)
        listed = listed + by.where(parallel & LIST_BEGINS, texts["opens_list"], 0)
        listed = listed + by.where(parallel & LIST_ENDS, texts["closes_list"], 0)
        if rules.parallel_unknown:  # no bill has such a list: the larger of the plain and the listed cost
            listed = by.most(text, listed)
        result = by.where(parallel, listed, text)
    cost = by.where(role == TOOL, result, by.pick(rules.role_costs, role) + text)
    cost += sent["estimated"] - sent["paged"] - _sounded(sent, rules) + texts["unpriced"] + sent["images"]
    cost += _heard_cost(sent, rules, by) + _pages_cost(sent, rules, by)
    if "has_name" in sent:
        has_name = sent["has_name"] != 0
        cost += by.where(has_name, texts["name"] + rules.name, 0) - by.where(has_name & (role == FUNCTION), 2, 0)
    if "calls" in sent:
        cost += _calls_cost(sent, texts, rules, by)
        if "identified" in sent:
            more = sent["identified"] * rules.identified_call + sent["stored"] * rules.stored_call
            cost += by.where(_is_native(sent, model.format) & (sent["calls"] == 1), more, 0)
    if "form" in sent:
        rest = sent[f"rest{model.column}"] + sent[f"apart{model.column}"] + sent["beside_estimated"]
        beside = rest - (-sent["rest_sealed"] // _SEALED_CHARACTERS) + sent["beside_images"]
        beside += sent["wrappings"] * rules.role_costs[ASSISTANT]
        if PROVIDERS[model.format].replies_are_items:  # an item of the assistant without text is free: 12 bills
            is_empty = (role == ASSISTANT) & (sent["text0"] == 0) & (sent["calls"] == 0)
            beside -= by.where(is_empty, rules.role_costs[ASSISTANT], 0)
        cost += by.where(_is_native(sent, model.format), beside, 0)
    return cost


def _calls_cost(sent: Row, texts: Row, rules: Rules, by: Arithmetic) -> Number:
    """The tokens that an assistant message's calls add, with their results' wrapping.

    Text next to calls is billed as a message of its own, so without text the message's own cost is subtracted.
    """
    calls, names, arguments = sent["calls"], texts["call_names"], texts["call_arguments"]
    bare = names
    if rules.names_bare and "has_bare_names" in sent:
        bare = by.where(sent["has_bare_names"] != 0, texts["bare_names"], names)
    said = names + bare + arguments
    cost = calls * rules.single_call + said
    if by.some(calls > 1):
        together = rules.parallel_calls + (calls * rules.each_call + said if rules.each_call else texts["together"])
        several = by.most(cost, together) if rules.parallel_unknown else together
        cost = by.where(calls > 1, several, cost)
    if "textless" in sent:
        cost = cost - by.where(sent["textless"] != 0, rules.role_costs[ASSISTANT], 0)
    if "legacy_call" in sent:
        cost = by.where((sent["legacy_call"] != 0) & (calls == 1), names + arguments + rules.legacy_call, cost)
    return by.where(calls > 0, cost, 0)


def _is_native(row: Row, form: str) -> Number:
    """Whether a message has native parts that are sent in this form."""
    return row["form"] == form_number(form)


def is_left_out(row: Row, form: str, by: Arithmetic) -> Number:
    """Return whether a request in ``form``, which is not the chat form, leaves a message out: an empty assistant's."""
    is_empty = (row["role"] == ASSISTANT) & (row["text0"] == 0)
    if not by.some(is_empty):
        return False
    thinks = sum(row[kind + "0"] for kind in PROVIDERS[form].carries)
    others = row["calls"] + row["estimated"] + row["has_images"] + row["spoken0"] + thinks
    return is_empty & (others == 0) & (row["form"] != form_number(form))


def is_guessed(row: Row, model: Model) -> Number:
    """Return whether a message has parts that can only be estimated: audio, files, unknown members, a name before a text,
    which may join its first token, native parts without a chat form, and reasoning without a reply, which may
    not be sent."""
    if _GUESSES.isdisjoint(row):
        return False
    is_named = (row["has_name"] != 0) & (row["role"] <= USER)
    is_alone = (row["role"] == ASSISTANT) & (row["text0"] == 0) & (row["calls"] == 0)
    guesses = ("rest0", "rest1", "reasoning_sealed", "rest_sealed", "beside_estimated", "only", "told")
    native = is_alone | (sum(row[name] for name in guesses) != 0)
    found = (row["estimated"] != 0) | (row["unpriced0"] != 0) | (row["unpriced1"] != 0)
    found = found | (_is_native(row, model.format) & native)
    if "identified" in row:
        rules = model.rules
        alone = (row["identified"] * rules.identified_call + row["stored"] * rules.stored_call) != 0
        several = (row["identified"] != 0) & (rules.parallel_calls != 0)  # one bill of gpt-5.4 is 3 higher
        unsure = ((row["calls"] == 1) & alone) | ((row["calls"] > 1) & several)
        found = found | (_is_native(row, model.format) & unsure)
    if model.is_resold:
        found = found | (row["calls"] != 0)
    if PROVIDERS[model.format].is_chat_form:
        return found | (row["pictured0"] != 0) | (row["spoken0"] != 0)
    return found | is_named | (row["spoken0"] != 0)


# ---- reasoning


def reasoning_cost(
    row: Row, model: Model, form: str, by: Arithmetic, *, seals_alone: bool = False, is_forgotten: Number = False
) -> Number:
    """Return the tokens of a message's reasoning for ``model``, in addition to the message.

    Reasoning of a chat message counts if ``form`` sends it, native reasoning if it is in the model's own format.
    ``seals_alone``: only signatures count. ``is_forgotten``: sealed reasoning is free.
    """
    cost: Number = 0
    carried = PROVIDERS[form].carries & ({"signatures"} if seals_alone else _KINDS)
    if "plain0" in row and not seals_alone and _thinks_aloud(model, form):
        carried |= {"plain"}
        row = _as_thinking(row, by)
    if any(kind + "0" in row for kind in carried):
        cost = by.ceil(_reasoning_cost(row, carried, model, by) * model.margin)
    has_native = not seals_alone or bool(PROVIDERS[model.format].kinds.seals)
    if "form" in row and has_native and any(name in row for name in _REASONING):
        sealed = by.where(is_forgotten, 0, _sealed(row, model))
        native = _native_reasoning(Row() if seals_alone else row, sealed, model, by)
        cost = cost + by.where(_is_native(row, model.format), by.ceil(native * model.margin), 0)
    return cost


@cache
def _member_name() -> Pair:
    """The tokens of the name of a member with reasoning, in both encodings."""
    return text_tokens({CONTENT: ""})


def _as_thinking(row: Row, by: Arithmetic) -> Row:
    """The numbers with plain reasoning as the text of a thinking block: without its member's name."""
    sent = Row(row)
    for column, name in zip(COLUMNS, _member_name(), strict=True):
        sent["plain" + column] = by.where(row["blocks0"] == 0, by.most(0, row["plain" + column] - name), 0)
    return sent


def _thinks_aloud(model: Model, form: str) -> bool:
    """Whether plain reasoning is sent as thinking, where a message has no blocks of it."""
    return "plain" not in PROVIDERS[form].carries and fills_reasoning(form, model.provider, model.known_as)


def reasoning_of(row: Row, column: int) -> Number:
    """Return the tokens of all reasoning in members of a chat message, in o200k_base (column 0) or cl100k_base (1)."""
    return sum(row[kind + COLUMNS[column]] for kind in sorted(_KINDS))


def _reasoning_cost(row: Row, carried: AbstractSet[str], model: Model, by: Arithmetic) -> Number:
    """The tokens of reasoning in members of a chat message. Its mix is that of the reasoning, without signatures."""
    said = carried - {"signatures"}
    reasoning = Row({"said" + column: sum(row[kind + column] for kind in said) for column in COLUMNS})
    part = by.least(1.0, reasoning["said0"] / by.most(1, row["plain0"] + row["blocks0"]))
    tokens = _pair(reasoning, "said", row.get("reasoning_mix"), model, by, part)
    return tokens + (_pair(row, "signatures", None, model, by) if "signatures" in carried else 0)


def _sealed(row: Row, model: Model) -> Number:
    """The characters of sealed reasoning in native parts that the family bills."""
    on_texts = isinstance(model.rules, VendorRules) and model.rules.seals_texts
    return row["reasoning_sealed"] + row["texts_sealed"] if on_texts else row["reasoning_sealed"]


def _native_reasoning(row: Row, sealed: Number, model: Model, by: Arithmetic) -> Number:
    words = _pair(row, "native_reasoning", row.get("beside_mix"), model, by)
    if isinstance(model.rules, VendorRules):
        return words + sealed * model.rules.sealed + row["reasoning_images"]
    counted = row[f"native_reasoning{model.column}"]
    return counted - (-sealed // _SEALED_CHARACTERS) + by.most(0, words - counted) + row["reasoning_images"]
