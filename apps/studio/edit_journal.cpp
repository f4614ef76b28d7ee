#include "apps/studio/edit_journal.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"

namespace kinora::studio {
namespace {

using core::EditKind;
using core::fail;
using core::Status;

core::Failure failed(const std::filesystem::path& path) {
  return fail(KINORA_ERROR_IO, "{}: {}; nothing was saved. Make the folder writable and free some space",
              path.string(), std::strerror(errno));
}

// RFC 3339 in UTC, with milliseconds.
std::string time_now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  tm utc{};
  gmtime_r(&t.tv_sec, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, t.tv_nsec / 1'000'000);
}

}  // namespace

// The open file, locked against other studios while the object lives.
class EditJournal::Locked {
 public:
  explicit Locked(const std::filesystem::path& path) {
    const bool is_new = !std::filesystem::exists(path);
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file_ < 0) return;
    while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (is_new) (void)core::flush_folder(path.parent_path());
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    if (file_ >= 0) close(file_);
  }
  int file() const { return file_; }

 private:
  int file_ = -1;
};

EditJournal::EditJournal(std::filesystem::path file, std::string author, core::Footage clips)
    : path_(std::move(file)), author_(std::move(author)), clips_(std::move(clips)), history_(clips_) {}

void EditJournal::forget() {
  history_ = EditHistory(clips_);
  wrong_.clear();
  read_ = inode_ = 0;
}

core::Status EditJournal::read_new(int file) {
  struct stat about {};
  if (fstat(file, &about) != 0) return failed(path_);
  if (about.st_ino != inode_ || static_cast<uint64_t>(about.st_size) < read_) {  // the file was replaced
    forget();
    inode_ = about.st_ino;
  }
  std::string text(static_cast<size_t>(about.st_size) - read_, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = pread(file, text.data() + have, text.size() - have, static_cast<off_t>(read_ + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(path_);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  read_ += history_.add_lines(text, [this](size_t line, const std::string& why) {
    if (wrong_.empty())
      wrong_ = fmt::format("{}: line {}: {}; fix or remove the line", path_.string(), line, why);
  });
  return {};
}

// Called under the lock. A last line without a newline was typed by hand, or its writer died: a whole edit
// gets its newline, anything else is dropped and written to the log.
core::Status EditJournal::read_all(int file) {
  if (Status status = read_new(file); !status) return status;
  struct stat about {};
  if (fstat(file, &about) != 0) return failed(path_);
  std::string rest(static_cast<size_t>(about.st_size) - read_, '\0');
  if (rest.empty()) return {};
  if (pread(file, rest.data(), rest.size(), static_cast<off_t>(read_)) != static_cast<ssize_t>(rest.size()))
    return failed(path_);
  if (core::parse_edit(rest)) {
    if (write(file, "\n", 1) != 1) return failed(path_);
    return read_new(file);
  }
  core::log_warn(
      "{}: the last line is an incomplete edit and is removed: {}", path_.string(),
      nlohmann::json(rest.substr(0, 200)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

core::Result<bool> EditJournal::refresh() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) {
    const bool changed = read_ > 0;
    forget();
    return changed;
  }
  if (file < 0) return failed(path_);
  const uint64_t before = read_, inode = inode_;
  const Status status = read_new(file);
  close(file);
  if (!status) return status.failure();
  return read_ != before || inode_ != inode;
}

std::string EditJournal::refusal() const {
  std::error_code error;
  const bool is_there = std::filesystem::exists(path_, error);
  const auto asked = is_there ? path_ : path_.parent_path();
  if (access(asked.c_str(), W_OK) == 0) return "";
  return fmt::format("{}: {}; edits cannot be saved. Make {} writable, or browse without editing",
                     asked.string(), std::strerror(errno), is_there ? "it" : "the folder");
}

core::Result<bool> EditJournal::reread() {
  forget();
  return refresh();
}

// Called under the lock, after read_all(). Bytes after the last line are an incomplete edit.
core::Status EditJournal::append(int file, Edit edit) {
  edit.time = time_now();
  edit.author = author_;
  const std::string line = line_of(edit);
  const auto end = static_cast<off_t>(read_);
  if (ftruncate(file, end) != 0) return failed(path_);
  ssize_t n = 0;
  do n = write(file, line.data(), line.size());
  while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(line.size()) || fsync(file) != 0) {
    if (n >= 0 && errno == 0) errno = ENOSPC;
    core::Failure why = failed(path_);
    if (ftruncate(file, end) != 0) why.message += "; part of a line remains, which the next edit removes";
    return why;
  }
  read_ += history_.add_lines(line, [](size_t, const std::string&) {});
  return {};
}

core::Status EditJournal::change(const std::string& key, const Change& set, const Change& own,
                                 const nlohmann::json& of) {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status;
  const Change edited = history_.now(key), now = overlaid(own, edited);
  Edit edit;
  edit.key = key;
  edit.of = of;
  edit.set = set;
  if (set.caption && set.caption == now.caption) edit.set.caption.reset();
  if (set.reason && set.reason == now.reason) edit.set.reason.reset();
  if (set.keep && set.keep == edited.keep) edit.set.keep.reset();  // accepting a kept clip is a decision too
  if (edit.set.empty()) return {};
  edit.was = same_fields(edited, edit.set);
  return append(locked.file(), std::move(edit));
}

core::Result<std::string> EditJournal::undo(const Own& own) {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status.failure();
  const Edit* last = history_.undoable(author_);
  if (!last) return fail(KINORA_ERROR_NOT_FOUND, "there is nothing to undo");
  if (same_fields(history_.now(last->key), last->set) != last->set)
    return fail(KINORA_ERROR_INVALID, "{}: another author has changed it since; edit it again", last->key);
  Edit edit;
  edit.key = last->key;
  edit.of = last->of;
  edit.set = same_fields(overlaid(own(last->key), last->was), last->set);
  if (last->set.keep && !last->was.keep) {  // the job's own outcome is not a user's decision
    edit.set.keep.reset();
    edit.cleared.keep = true;
  }
  edit.kind = EditKind::undo;
  if (Status status = append(locked.file(), edit); !status) return status.failure();
  return edit.key;
}

core::Result<std::string> EditJournal::redo() {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status.failure();
  const Edit* last = history_.redoable(author_);
  if (!last) return fail(KINORA_ERROR_NOT_FOUND, "there is nothing to redo");
  if (same_fields(history_.now(last->key), last->set) != same_fields(last->was, last->set))
    return fail(KINORA_ERROR_INVALID, "{}: another author has changed it since; edit it again", last->key);
  Edit edit;
  edit.key = last->key;
  edit.of = last->of;
  edit.set = last->set;
  edit.kind = EditKind::redo;
  if (Status status = append(locked.file(), edit); !status) return status.failure();
  return edit.key;
}

}  // namespace kinora::studio
