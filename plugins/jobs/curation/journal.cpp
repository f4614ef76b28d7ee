#include "plugins/jobs/curation/journal.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/io/atomic_file.hpp"
#include "core/base/log.hpp"
#include "core/base/digest.hpp"

namespace kinora::core {
namespace {

constexpr std::string_view kHead = "{\"sum\":\"", kMiddle = "\",\"entry\":", kTail = "}\n";
constexpr size_t kDigits = 16;
constexpr size_t kBefore = kHead.size() + kDigits + kMiddle.size();  // offset of the entry's text

std::string line_of(const json& entry) {
  const std::string text = entry.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string line;
  line.reserve(kBefore + text.size() + kTail.size());
  return line.append(kHead).append(sha256(text), 0, kDigits).append(kMiddle).append(text).append(kTail);
}

// The entry of a complete line; discarded if the line is not what line_of() writes.
json entry_of(std::string_view line) {
  const json none = json::parse("", nullptr, false);
  if (line.size() < kBefore + kTail.size() || !line.starts_with(kHead) || !line.ends_with(kTail)) return none;
  if (line.substr(kHead.size() + kDigits, kMiddle.size()) != kMiddle) return none;
  const std::string_view text = line.substr(kBefore, line.size() - kBefore - kTail.size());
  if (sha256(text).substr(0, kDigits) != line.substr(kHead.size(), kDigits)) return none;
  return json::parse(text, nullptr, false);
}

}  // namespace

Journal::Journal(std::filesystem::path file, const std::function<void(const json&, Place)>& each, bool looks)
    : file_(std::move(file)) {
  std::error_code error;
  if (looks && !std::filesystem::exists(file_, error)) return;
  open(looks ? O_RDONLY : O_RDWR | O_CREAT);
  replay(each, looks);
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::fail(const char* doing, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw Error(full ? KINORA_NO_MEMORY : KINORA_IO,
              fmt::format("{}: {} failed: {}; {}", file_.string(), doing, std::strerror(error),
                          full ? "free some space and run again; finished work is kept"
                               : "check the disk and the folder's permissions, and run again"));
}

void Journal::open(int flags) {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(file_.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("opening", errno);
}

void Journal::replay(const std::function<void(const json&, Place)>& each, bool looks) {
  std::string waiting, piece(size_t{1} << 20, '\0');
  uint64_t read_to = 0, line_number = 0;
  bool sound = true;
  while (sound) {
    const ssize_t got = ::pread(descriptor_, piece.data(), piece.size(), static_cast<off_t>(read_to));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("reading", errno);
    if (got == 0) break;
    read_to += static_cast<uint64_t>(got);
    waiting.append(piece, 0, static_cast<size_t>(got));
    size_t done = 0;
    for (size_t at; sound && (at = waiting.find('\n', done)) != std::string::npos;) {
      const auto line = std::string_view(waiting).substr(done, at + 1 - done);
      const json entry = entry_of(line);
      ++line_number;
      if (!(sound = !entry.is_discarded())) {
        log_warn("{}: line {} is damaged; it and all later lines are discarded and redone", file_.string(), line_number);
        break;
      }
      each(entry, {end_ + kBefore, line.size() - kBefore - kTail.size()});
      end_ += line.size();
      done = at + 1;
    }
    waiting.erase(0, done);
  }
  if (!looks && ::ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) fail("cutting off an unfinished line", errno);
}

Journal::Place Journal::append(const json& entry, bool durable) {
  const std::string line = line_of(entry);
  for (size_t done = 0; done < line.size();) {
    const ssize_t n =
        ::pwrite(descriptor_, line.data() + done, line.size() - done, static_cast<off_t>(end_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, static_cast<off_t>(end_));
      fail("writing", error);
    }
    done += static_cast<size_t>(n);
  }
  const Place place{end_ + kBefore, line.size() - kBefore - kTail.size()};
  end_ += line.size();
  if (durable && ::fdatasync(descriptor_) != 0 && errno != EINVAL) fail("flushing", errno);
  return place;
}

json Journal::read(Place place) const {
  std::string text(place.size, '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t n =
        ::pread(descriptor_, text.data() + done, text.size() - done, static_cast<off_t>(place.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("reading", errno);
    if (n == 0) fail_at(place);
    done += static_cast<size_t>(n);
  }
  json entry = json::parse(text, nullptr, false);
  if (entry.is_discarded()) fail_at(place);
  return entry;
}

// The lines that this process wrote are gone. Counts the lines that are left in the file.
void Journal::fail_at(Place place) const {
  std::ifstream in(file_, std::ios::binary);
  uint64_t left = place.offset;
  int64_t line = 1;
  for (char c; left > 0 && in.get(c); --left) line += c == '\n';
  throw Error(KINORA_DATA, fmt::format("{}: {} {} was cut off or overwritten while the job ran; make sure that no other process writes to this "
                                       "folder, and run the same command again: the lines before it are kept, the rest is "
                                       "redone",
                                       file_.string(), left > 0 ? "what came after line" : "line", line));
}

void Journal::clear() {
  if (::ftruncate(descriptor_, 0) != 0) fail("emptying", errno);
  end_ = 0;
}

void Journal::rewrite(const std::function<void(const Write&)>& fill) {
  AtomicFile file = or_throw(AtomicFile::create(file_));
  uint64_t end = 0;
  fill([&](const json& entry) {
    const std::string line = line_of(entry);
    or_throw(file.write(line));
    end += line.size();
  });
  or_throw(file.commit());
  open(O_RDWR | O_CREAT);
  end_ = end;
}

}  // namespace kinora::core
