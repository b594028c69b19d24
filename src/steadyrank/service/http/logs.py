"""One line of JSON for each thing that happens, on standard error."""

import datetime
import json
import logging


class Lines(logging.Formatter):
    """A record as JSON; `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {"time": moment.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        line["message"] = record.getMessage()
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: int = logging.INFO) -> None:
    """Log as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
