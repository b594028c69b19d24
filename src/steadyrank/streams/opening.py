"""Open a stream by its address, importing the library for its scheme only then."""

from collections.abc import Mapping

from .stream import EXTRAS, Address, Sink, Stream


def open_stream(address: Address, group: str, reader: str, source: str, settings: Mapping[str, str]) -> Stream:
    """Open a stream for reading, as a named member of a group.

    `source`: the stream's name in what is sent to the service; `settings`: for librdkafka.
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
    """Open a stream for writing."""
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
