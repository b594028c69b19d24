"""Topics of Kafka: read by a consumer group, whose positions the brokers keep."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from .stream import DEAD, Address, Message

_WAIT = 10.0  # seconds for an answer of the brokers
_PATIENCE = 1_800_000  # milliseconds between reads: as long as the service may be away before others take over
_OURS = {
    "enable.auto.commit": False,  # a position is stored after what it stands for
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "max.poll.interval.ms": _PATIENCE,
}
_MOVED = (  # others read these partitions by now, and what was not finished comes to them again
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._STATE,
)


class KafkaTopic:
    """A topic read by a group; `source`: what the service is told that messages come from."""

    def __init__(self, address: Address, group: str, source: str, settings: Mapping[str, str]) -> None:
        self._source = source
        self._topic, self._sink = address.name, KafkaSink(address._replace(name=address.name + DEAD), settings)
        given = {"bootstrap.servers": address.servers, "group.id": group, **_OURS, **settings}
        self._consumer = _made(Consumer, given)
        self._consumer.subscribe([self._topic])

    def read(self, most: int, wait: float) -> list[Message]:
        """The next messages of the partitions that this member of the group has."""
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
        """Add it to the topic of dead letters, under the key that it had."""
        headers = {"code": str(code), "reason": why, "source": message.id}
        self._sink.add(message.origin.key(), message.body or b"", headers)

    def finish(self, messages: Sequence[Message]) -> None:
        """Store after which offsets to begin, once the dead letters are there."""
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
        """From the stored position to the end of each partition that this member has."""
        try:
            behind = {}
            for place in self._consumer.committed(self._consumer.assignment(), timeout=_WAIT):
                first, last = self._consumer.get_watermark_offsets(place, timeout=_WAIT)
                behind[str(place.partition)] = max(last - max(place.offset, first), 0)
            return behind
        except KafkaException as error:
            raise _failure(error) from error

    def close(self) -> None:
        """Leave the group, so that others go on at once."""
        self._consumer.close()
        self._sink.close()


class KafkaSink:
    """A topic that is added to; a message is there when all brokers that keep it have it."""

    def __init__(self, address: Address, settings: Mapping[str, str]) -> None:
        self._topic, self._failed, self._lock = address.name, "", threading.Lock()
        own = {name: value for name, value in settings.items() if not name.startswith(_OF_READERS)}
        given = {"bootstrap.servers": address.servers, "enable.idempotence": True, **own}
        self._producer = _made(Producer, given)

    def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Add a message and wait for it; several threads may."""
        with self._lock:
            self.add(key.encode(), body, headers)
            self.flush()

    def add(self, key: bytes | None, body: bytes, headers: Mapping[str, str]) -> None:
        """Add a message; `flush` waits for it."""
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
        """Wait for all that was added."""
        left = self._producer.flush(6 * _WAIT)
        failed, self._failed = self._failed, ""
        if left or failed:
            raise ConnectionError(f"the topic {self._topic!r}: {failed or f'{left} messages were not taken in time'}")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed = str(error)

    def close(self) -> None:
        """End the connection; what was added and not waited for has a moment."""
        self._producer.flush(1.0)


_OF_READERS = ("session.", "group.", "heartbeat.", "auto.", "max.poll.", "fetch.", "partition.", "isolation.")
_PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._MAX_POLL_EXCEEDED,  # the service was away for so long that others have the partitions: it joins again
)


def _made(kind: Any, settings: dict[str, Any]) -> Any:
    """A consumer or a producer; settings that librdkafka does not know are refused in its words."""
    try:
        return kind(settings)
    except KafkaException as error:
        raise ValueError(f"a setting of Kafka: {error.args[0].str()}") from error


def _failure(error: KafkaException) -> ConnectionError:
    return ConnectionError(f"the Kafka topic: {error.args[0]}")
