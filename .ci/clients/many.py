"""1,000 idle and 200 active connections: no error, and the memory of a connection. Speaks the protocol itself."""
import os
import socket
import struct
import sys
import threading

PORT = int(os.environ["PGPORT"])
PID = os.environ["SERVER_PID"]


def memory():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def answer(connection):
    kinds = []
    while True:
        head = read(connection, 5)
        kinds.append(head[:1])
        body = read(connection, struct.unpack("!i", head[1:])[0] - 4)
        if head[:1] == b"E":
            sys.exit(f"an error: {body!r}")
        if head[:1] == b"Z":
            return kinds


def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            sys.exit("the server closed a connection")
        data += more
    return data


def connect():
    connection = socket.create_connection(("127.0.0.1", PORT))
    body = struct.pack("!i", 3 << 16) + b"user\0postgres\0database\0postgres\0\0"
    connection.sendall(struct.pack("!i", len(body) + 4) + body)
    answer(connection)
    return connection


def ask(connection, text):
    body = text.encode() + b"\0"
    connection.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
    return answer(connection)


first = connect()
ask(first, "create table many (id int primary key, n int)")
ask(first, "insert into many select id, 0 from generate_series(0, 199) id")
before = memory()
idle = [connect() for _ in range(1000)]
after = memory()
print(f"1000 idle connections: {(after - before) / 1000:.1f} kB each")


def work(number):
    connection = connect()
    for _ in range(50):
        ask(connection, f"update many set n = n + 1 where id = {number}")
        ask(connection, "select 1")


threads = [threading.Thread(target=work, args=(number,)) for number in range(200)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(f"and 200 active ones: {(memory() - before) / 1200:.1f} kB each")
connection = connect()
connection.sendall(b"Q" + struct.pack("!i", 4 + len(b"select sum(n) from many\0")) + b"select sum(n) from many\0")
data = b""
while b"SELECT 1\0" not in data:
    data += connection.recv(4096)
assert b"10000" in data, data
for one in idle:
    ask(one, "select 1")
ask(first, "drop table many")
