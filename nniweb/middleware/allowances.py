"""How much of the server a caller gets before the application knows who it is."""

from dataclasses import dataclass

#: Bytes of a body that anybody may send. A body that is not larger is given to the application whole; of a larger one
#: the application decides, at its headers, who may send it (``nniweb.middleware.body_size``).
ANYBODYS_BYTES = 64 * 1024


@dataclass(frozen=True)
class Allowances:
    """Times in seconds, sizes in bytes. The defaults are for use, others for tests."""

    #: Until all headers of a request are there, from its first byte; of the first request from the connection's begin.
    headers_seconds: float = 20.0
    #: Without the next request on a connection that was used.
    idle_seconds: float = 60.0
    #: A body may pause for so long, and must bring ``body_rate`` bytes a second beyond that.
    body_seconds: float = 30.0
    body_rate: float = 500.0
    #: How often it is looked who is too slow.
    look_seconds: float = 1.0
    #: What a refused caller may still send until the connection is cut: it gets the answer if it reads by then.
    leaving_seconds: float = 5.0
    leaving_bytes: int = 16 * 1024 * 1024
    #: The request line and all headers together, and how many headers.
    header_bytes: int = 16 * 1024
    headers: int = 100
    #: Connections of one address that wait for bytes of a request; loopback and trusted proxies stand for many.
    waiting_of_address: int = 1000
    #: Bytes of all bodies together that are held because they are not whole yet.
    held_bytes: int = 64 * 1024 * 1024
    #: A part of a large body that waits for the application; the connection is not read meanwhile.
    ahead_bytes: int = 256 * 1024
    #: One message of a browser over a websocket, and how many may wait.
    websocket_bytes: int = 64 * 1024
    websocket_messages: int = 32
