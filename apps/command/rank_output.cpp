#include "apps/command/rank_output.hpp"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include <sys/ioctl.h>

#include "kinora/error.hpp"

namespace kinora {
namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return;  // a full disk or a closed terminal must not stop a rank
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

void close_and_forget(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Opens a terminal of the same size as ours that passes text unchanged. False if the machine has none left.
bool open_terminal(int like, int& ours, int& theirs) {
  ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  char name[128];
  if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0 || ptsname_r(ours, name, sizeof name) != 0 ||
      (theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
    close_and_forget(ours);
    return false;
  }
  termios how{};
  tcgetattr(theirs, &how);
  cfmakeraw(&how);
  tcsetattr(theirs, TCSANOW, &how);
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(theirs, TIOCSWINSZ, &size);
  return true;
}

// A line as a terminal shows it in the end: the text after the last carriage return, without colours.
std::string as_shown(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const size_t back = line.rfind('\r'); back != std::string_view::npos) line.remove_prefix(back + 1);
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    while (i + 1 < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
  }
  return out;
}

}  // namespace

RankOutput::RankOutput(std::filesystem::path log, const std::string& headline, bool shown)
    : log_(std::move(log)), file_(open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0)
    throw Error(KINORA_ERROR_IO,
                log_.string() + ": " + std::strerror(errno) + "; choose another folder with --logs");
  write_all(file_, headline + "\n");
  begin_ = static_cast<uint64_t>(std::max<off_t>(0, lseek(file_, 0, SEEK_END)));
  if (!shown) return;
  open_channel(channels_[0], STDOUT_FILENO);
  open_channel(channels_[1], STDERR_FILENO);
}

RankOutput::~RankOutput() {
  for (auto& c : channels_) {
    close_and_forget(c.from_rank);
    close_and_forget(c.to_rank);
  }
  close_and_forget(file_);
}

void RankOutput::open_channel(Channel& c, int shown_at) const {
  c.shown_at = shown_at;
  if (isatty(shown_at) && open_terminal(shown_at, c.from_rank, c.to_rank)) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(KINORA_ERROR_IO, std::string("pipe: ") + std::strerror(errno));
  c.from_rank = ends[0];
  c.to_rank = ends[1];
}

void RankOutput::started() {
  for (auto& c : channels_) close_and_forget(c.to_rank);
}

void RankOutput::pass_on(size_t channel) {
  Channel& c = channels_[channel];
  char text[16384];
  const ssize_t n = read(c.from_rank, text, sizeof text);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {  // a terminal whose other side is closed gives EIO
    write_lines(c, "", true);
    close_and_forget(c.from_rank);
    return;
  }
  const std::string_view got(text, static_cast<size_t>(n));
  write_all(c.shown_at, got);
  write_lines(c, got, false);
}

void RankOutput::write_lines(Channel& c, std::string_view text, bool ends) {
  c.line += text;
  size_t begin = 0;
  for (size_t end; (end = c.line.find('\n', begin)) != std::string::npos; begin = end + 1)
    write_all(file_, as_shown(std::string_view(c.line).substr(begin, end - begin)) + "\n");
  c.line.erase(0, begin);
  // Only the last state of a progress bar stays visible.
  if (const size_t back = c.line.rfind('\r'); back != std::string::npos && back + 1 < c.line.size())
    c.line.erase(0, back);
  if (ends && !as_shown(c.line).empty()) write_all(file_, as_shown(c.line) + "\n");
}

std::string RankOutput::last_lines(int count) const {
  std::ifstream in(log_, std::ios::binary);
  in.seekg(0, std::ios::end);
  const auto end = static_cast<uint64_t>(std::max<std::streamoff>(0, in.tellg()));
  const uint64_t from = std::max(begin_, end > 16384 ? end - 16384 : 0);
  in.seekg(static_cast<std::streamoff>(from));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string out;
  for (size_t i = lines.size() - std::min(lines.size(), static_cast<size_t>(count)); i < lines.size(); ++i)
    out += "  | " + lines[i] + "\n";
  return out;
}

}  // namespace kinora
