"""What decodes a stage's inputs and encodes its sinks; made once for a replica's life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from statemgr.clock import Clock
from towpath.errors import RegistryUnavailableError
from towpath.operators.codec import RecordDecoder, RecordEncoder, decoder_for, encoder_for
from towpath.query.plan import StagePlan
from towpath.stage.registry_settings import registry_for
from towpath.stage.settings import StageSettings

if TYPE_CHECKING:
    from towpath.formats.registry import Registry


@dataclass(frozen=True)
class Codecs:
    """Codecs by topic.

    Attributes:
        decoders: of all inputs.
        encoders: of the sinks whose schema is in a registry.
        registry: where schemas are; None where none is needed.
    """

    decoders: Mapping[str, RecordDecoder]
    encoders: Mapping[str, RecordEncoder] = field(default_factory=dict)
    registry: Registry | None = None

    def prepare(
        self, wait_s: float, clock: Clock, stopping: Callable[[], bool], pause: Callable[[float], object]
    ) -> None:
        """Wait for the registry, and make the schemas of sinks known to it, so that no row has to wait for that.

        Args:
            wait_s: longest wait.
            clock: time.
            stopping: whether the process was asked to stop; then nothing is waited for.
            pause: waits that many seconds; a stop request ends it.

        Raises:
            RegistryUnavailableError: it did not answer in time, or refuses this client.
            StageStoppedError: it does not take the schema of a sink.
        """
        deadline_s = clock.monotonic_s() + wait_s
        while self.registry is not None and not stopping():
            try:
                self.registry.check()
                for encoder in self.encoders.values():
                    encoder.prepare()
            except RegistryUnavailableError as error:
                if error.refused or error.again_s > deadline_s:
                    raise
                pause(max(0.0, error.again_s - clock.monotonic_s()))
            else:
                return


def plain_codecs(plan: StagePlan) -> Codecs:
    """Codecs of a stage that needs no registry.

    Raises:
        ValueError: it needs one.
    """
    return Codecs({item.topic: decoder_for(item) for item in plan.inputs})


def codecs_of(plan: StagePlan, settings: StageSettings, clock: Clock) -> Codecs:
    """Codecs of a stage; nobody is asked yet.

    Raises:
        SettingsError: see :func:`towpath.stage.registry_settings.registry_for`.
    """
    registry = registry_for(plan, settings, clock)
    if registry is None:
        return plain_codecs(plan)
    register = settings.schema_registry_register
    encoders = {item.topic: encoder_for(item, registry, register=register) for item in plan.outputs}
    return Codecs(
        {item.topic: decoder_for(item, registry) for item in plan.inputs},
        {topic: encoder for topic, encoder in encoders.items() if encoder is not None},
        registry,
    )
