"""A stream is opened by its address; what a scheme needs is imported then."""

from collections.abc import Mapping

from .stream import EXTRAS, Address, Sink, Stream


def open_stream(address: Address, group: str, reader: str, source: str, settings: Mapping[str, str]) -> Stream:
    """A stream to read, as a member of a group under a name of its own.

    `source`: what the service is told that messages come from; `settings` are those of librdkafka.
    """
    try:
        if address.scheme == "kafka":
            from .kafka import KafkaTopic

            return KafkaTopic(address, group, source, settings)
        from .redis import RedisStream

        _refuse_settings(settings)
        return RedisStream(address, group, reader, source)
    except ModuleNotFoundError as error:
        raise _lacking(address, error) from error


def open_sink(address: Address, settings: Mapping[str, str]) -> Sink:
    """A stream to write to."""
    try:
        if address.scheme == "kafka":
            from .kafka import KafkaSink

            return KafkaSink(address, settings)
        from .redis import RedisSink

        _refuse_settings(settings)
        return RedisSink(address)
    except ModuleNotFoundError as error:
        raise _lacking(address, error) from error


def _refuse_settings(settings: Mapping[str, str]) -> None:
    if settings:
        raise ValueError(f"--set {next(iter(settings))} is a setting of Kafka: redis:// takes none")


def _lacking(address: Address, error: ModuleNotFoundError) -> ValueError:
    return ValueError(f"{address.scheme}:// needs: pip install 'steadyrank[{EXTRAS[address.scheme]}]' ({error})")
