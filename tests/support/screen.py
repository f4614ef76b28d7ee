"""A program on a pseudo terminal, and what its screen shows."""
import fcntl, os, pty, re, select, struct, termios, time

SEQUENCE = re.compile(r"\x1b\[(\d*)(?:;\d+)*([A-Za-z])")


class Screen:
    """Rows of the terminal, without end below. It knows what Kinora writes: lines, \\r, cursor up, and erasing from the
    cursor on."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column, self.rest = columns, [""], 0, 0, ""

    def put(self, char):
        if self.column == self.columns:
            self.down()
            self.column = 0
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[:self.column] + char + line[self.column + 1:]
        self.column += 1

    def down(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def feed(self, text):
        text, at = self.rest + text, 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if text[at] == "\x1b" and not found and len(text) - at < 16:
                break  # the rest of the sequence comes later
            if found:
                self.control(found[2], int(found[1] or 0))
            elif text[at] == "\r":
                self.column = 0
            elif text[at] == "\n":
                self.down()
            else:
                self.put(text[at])
            at = found.end() if found else at + 1
        self.rest = text[at:]

    def control(self, what, count):
        assert what in "AJm", what
        if what == "A":
            self.row = max(0, self.row - max(1, count))
        if what == "J":
            self.rows[self.row] = self.rows[self.row][:self.column]
            del self.rows[self.row + 1:]

    def lines(self):
        return [row.rstrip() for row in self.rows if row.strip()]


class Terminal:
    """A program whose terminal this is, so that \\x03 is Ctrl-C."""

    def __init__(self, command, columns=80, **environment):
        self.screen, self.bytes, self.code = Screen(columns), b"", None
        environment = {**{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
                       "TERM": "xterm-256color", **environment}
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            try:
                os.execve(command[0], [str(word) for word in command], environment)
            finally:
                os._exit(127)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read(self, seconds):
        """Whether the program may say more."""
        if not select.select([self.file], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self.file, 65536)
        except OSError:  # it has ended
            piece = b""
        self.bytes += piece
        self.screen.feed(piece.decode(errors="replace"))
        return bool(piece)

    def wait_for(self, holds, seconds=300):
        """Reads until holds(lines of the screen)."""
        end = time.monotonic() + seconds
        while not holds(self.screen.lines()):
            assert self.read(0.2) and time.monotonic() < end, "\n".join(self.screen.lines())

    def end(self, seconds=300):
        """Reads to its end; returns the exit code."""
        end = time.monotonic() + seconds
        while self.read(0.2):
            assert time.monotonic() < end, "\n".join(self.screen.lines())
        os.close(self.file)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code
