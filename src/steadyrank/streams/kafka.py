"""Kafka topics, read by a consumer group whose offsets the brokers store."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from .stream import DEAD, Address, Message

_WAIT = 10.0  # seconds for an answer of the brokers
# milliseconds between polls: how long the service may be unavailable before other members take over
_PATIENCE = 1_800_000
_OURS = {
    "enable.auto.commit": False,  # offsets are committed after processing
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "max.poll.interval.ms": _PATIENCE,
}
_MOVED = (  # the partitions have other readers now, which get unacknowledged messages again
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._STATE,
)


class KafkaTopic:
    """A topic read by a group; `source`: the topic's name in what is sent to the service."""

    def __init__(self, address: Address, group: str, source: str, settings: Mapping[str, str]) -> None:
        self._source = source
        self._topic, self._sink = address.name, KafkaSink(address._replace(name=address.name + DEAD), settings)
        given = {"bootstrap.servers": address.servers, "group.id": group, **_OURS, **settings}
        self._consumer = _made(Consumer, given)
        self._consumer.subscribe([self._topic])

    def read(self, most: int, wait: float) -> list[Message]:
        """The next messages of the partitions assigned to this member."""
        try:
            consumed = self._consumer.consume(most, wait)
        except KafkaException as error:
            raise _failure(error) from error
        messages = []
        for one in consumed:
            if one.error() is None:
                messages.append(self._message(one))
            elif one.error().fatal() or not (one.error().retriable() or one.error().code() in _PASSING):
                raise _failure(KafkaException(one.error()))
        return messages

    def _message(self, one: Any) -> Message:
        stream, offset = f"{self._source}/{one.partition()}", one.offset()
        return Message(stream, offset, f"{stream}/{offset}", one.value() or b"", one)

    def bury(self, message: Message, code: int, why: str) -> None:
        """Add it to the dead-letter topic, with its original key."""
        headers = {"code": str(code), "reason": why, "source": message.id}
        self._sink.add(message.origin.key(), message.body or b"", headers)

    def finish(self, messages: Sequence[Message]) -> None:
        """Flush the dead letters, then commit the offsets."""
        self._sink.flush()
        after: dict[int, int] = {}
        for message in messages:
            place = message.origin.partition()
            after[place] = max(after.get(place, 0), message.origin.offset() + 1)
        places = [TopicPartition(self._topic, place, offset) for place, offset in after.items()]
        try:
            for stored in self._consumer.commit(offsets=places, asynchronous=False) or ():
                if stored.error is not None and stored.error.code() not in _MOVED:
                    raise KafkaException(stored.error)
        except KafkaException as error:
            if error.args[0].code() not in _MOVED:
                raise _failure(error) from error

    def lag(self) -> dict[str, int]:
        """From the committed offset to the end of each partition assigned to this member."""
        try:
            behind = {}
            for place in self._consumer.committed(self._consumer.assignment(), timeout=_WAIT):
                first, last = self._consumer.get_watermark_offsets(place, timeout=_WAIT)
                behind[str(place.partition)] = max(last - max(place.offset, first), 0)
            return behind
        except KafkaException as error:
            raise _failure(error) from error

    def close(self) -> None:
        """Leave the group, so that other members take over at once."""
        self._consumer.close()
        self._sink.close()


class KafkaSink:
    """A topic to append to; a message is safe once all in-sync replicas have it."""

    def __init__(self, address: Address, settings: Mapping[str, str]) -> None:
        self._topic, self._failed, self._lock = address.name, "", threading.Lock()
        own = {name: value for name, value in settings.items() if not name.startswith(_OF_READERS)}
        given = {"bootstrap.servers": address.servers, "enable.idempotence": True, **own}
        self._producer = _made(Producer, given)

    def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Append a message and wait for its delivery; thread-safe."""
        with self._lock:
            self.add(key.encode(), body, headers)
            self.flush()

    def add(self, key: bytes | None, body: bytes, headers: Mapping[str, str]) -> None:
        """Append a message; `flush` waits for its delivery."""
        headers_given: list[Any] = list(headers.items())
        while True:
            try:
                self._producer.produce(self._topic, body, key, headers=headers_given, on_delivery=self._delivered)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise _failure(error) from error

    def flush(self) -> None:
        """Wait for the delivery of all messages."""
        left = self._producer.flush(6 * _WAIT)
        failed, self._failed = self._failed, ""
        if left or failed:
            raise ConnectionError(
                f"the topic {self._topic!r}: {failed or f'{left} messages were not acknowledged in time'}"
            )

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed = str(error)

    def close(self) -> None:
        """Close; undelivered messages get a second."""
        self._producer.flush(1.0)


_OF_READERS = ("session.", "group.", "heartbeat.", "auto.", "max.poll.", "fetch.", "partition.", "isolation.")
_PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    # the service was unavailable for so long that others got the partitions: this member rejoins
    KafkaError._MAX_POLL_EXCEEDED,
)


def _made(kind: Any, settings: dict[str, Any]) -> Any:
    """Make a consumer or a producer. Raises ValueError, with librdkafka's message, for unknown settings."""
    try:
        return kind(settings)
    except KafkaException as error:
        raise ValueError(f"a setting of Kafka: {error.args[0].str()}") from error


def _failure(error: KafkaException) -> ConnectionError:
    return ConnectionError(f"the Kafka topic: {error.args[0]}")
