"""Metrics of what windows leave out, by model, and of what that saves: money, and tokens in the provider's prompt cache."""

from functools import cache, partial

from sash.core.counts.models.models import Model
from sash.operations.followups import Followups
from sash.operations.money import Money
from sash.operations.registry import Registry
from sash.operations.served import beginning, document_tokens, tokens_between, unseen_messages
from sash.store.data.layout import Target
from sash.windows.answer import Made
from sash.windows.head import WindowHead


class LeftOutMetrics:
    """Metrics of windows that do not send all of their history."""

    def __init__(self, registry: Registry, money: Money) -> None:
        counter = registry.counter
        self._money = money
        self._last = Followups()
        messages = counter("sash_window_dropped_messages_total", "Messages left out of windows.", "model")
        tokens = counter("sash_window_dropped_tokens_total", "Tokens of messages left out.", "model")
        self._dropped = cache(lambda label: (messages(label), tokens(label)))
        """The series of a label: messages, and their tokens."""
        self._dropped_images = counter(
            "sash_window_dropped_images_total",
            "Pictures, files and sounds of sent messages that were sent as one line of text.",
            "model",
        )
        self._dropped_media_bytes = counter(
            "sash_window_dropped_media_bytes_total", "Bytes of these pictures, files and sounds as JSON.", "model"
        )
        self._saved_tokens = counter(
            "sash_documents_saved_tokens_total", "Tokens of windows' documents that were not repeated.", "model"
        )
        self._trimmed_tokens = counter(
            "sash_documents_trimmed_tokens_total",
            "Tokens of the newest question's documents that did not fit.",
            "model",
        )
        self._truncations = counter(
            "sash_document_truncations_total", "Windows that cut or left out documents.", "model"
        )
        followups = counter(
            "sash_window_followups_total",
            "Windows that left history out and followed another of their conversation, by same or moved beginning.",
            *("model", "cut", "beginning"),
        )
        sent = counter("sash_window_followup_tokens_total", "Tokens of those windows.", "model", "cut")
        reused = counter(
            "sash_window_reused_tokens_total",
            "Tokens of those windows in the same place as before, which a provider's prompt cache can serve.",
            *("model", "cut"),
        )
        self._followups = cache(
            lambda label, cut, how: (followups(label, cut, how), sent(label, cut), reused(label, cut))
        )
        """The series of a label, a cut and a beginning: windows, their tokens, and those in the same place as before."""
        self._views = counter("sash_view_windows_total", "Windows of what one of several agents sees.", "model")
        self._unseen_messages = counter(
            "sash_view_unseen_messages_total",
            "Messages behind the first one of such windows that they left out, because they are for others.",
            "model",
        )

    def begin(self, label: str) -> None:
        """Create the series of a model's label at 0, so that rates include the first event."""
        documents, media = (self._saved_tokens, self._trimmed_tokens), (self._dropped_images, self._dropped_media_bytes)
        for metric in (self._dropped, *media, *documents, self._truncations, self._views, self._unseen_messages):
            metric(label)
        for cut in ("stable", "sliding"):
            for how in ("same", "moved"):
                self._followups(label, cut, how)

    def count(self, made: Made, label: str, target: Target | None) -> None:
        """Count what a window does not send: messages, media, documents, and what is for others."""
        head, plan = made.head, made.asked.plan
        dropped, documents = head.dropped, 0
        if dropped.messages:
            messages, tokens = self._dropped(label)
            messages.value += dropped.messages
            tokens.value += dropped.tokens
            if target is not None and made.window.seqs:
                self._follow(made, label, target)
        if dropped.media_bytes or dropped.images or dropped.files:
            self._dropped_images(label).inc(dropped.images + dropped.files)
            self._dropped_media_bytes(label).inc(dropped.media_bytes)
        if made.history.grounding_messages:
            documents, trimmed = document_tokens(made)
            self._saved_tokens(label).inc(documents)
            self._trimmed_tokens(label).inc(trimmed)
            self._truncations(label).inc(head.grounding.truncated)
        if plan.query.view is not None:
            self._views(label).inc()
            self._unseen_messages(label).inc(unseen_messages(made))
        elif documents or dropped.tokens:
            self.count_savings(head, label, plan.model, documents)

    def count_savings(self, head: WindowHead, label: str, model: Model, documents: int) -> None:
        """Record the money that a window saved by what it leaves out. ``documents`` are tokens of repeated documents.

        All count at the list price of input. A window that ends below a price tier saves the difference between the tiers.
        """
        prices, total = model.prices_at(head.tokens.total), head.tokens.total
        if prices.input_price is None:
            return
        self._money.add(label, "documents", documents * prices.input_price)
        self._money.add(label, "cuts", head.dropped.tokens * prices.input_price)
        if head.stop_reason == "price":
            above = next((tier for tier in model.price_tiers if total <= tier.above < head.budget), None)
            if above is not None and above.input_price:
                self._money.add(label, "tiers", total * (above.input_price - prices.input_price))

    def _follow(self, made: Made, label: str, target: Target) -> None:
        """Compare a conversation's window that left history out with the one before it, as ``Followups.follow`` does."""
        head, plan, window = made.head, made.asked.plan, made.window
        seqs = sorted(window.seqs) if window.is_moved else window.seqs
        key = target.name, head.model, plan.query.view
        reused = self._last.follow(key, seqs, beginning(made, seqs), partial(tokens_between, made))
        if reused is None:
            return
        cut = "stable" if plan.query.stable else "sliding"
        windows, tokens, same = self._followups(label, cut, "same" if reused else "moved")
        windows.value += 1
        tokens.value += head.tokens.total
        same.value += reused
        if plan.query.stable:
            prices = plan.model.prices_at(head.tokens.total)
            if prices.input_price and prices.cached_input_price is not None:
                self._money.add(label, "stable_cut", reused * (prices.input_price - prices.cached_input_price))
