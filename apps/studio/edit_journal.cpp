#include "apps/studio/edit_journal.hpp"

#include <algorithm>
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
#include "core/io/file_locks.hpp"

namespace kinora::studio {
namespace {

using core::EditKind;
using core::fail;
using core::Status;

core::Failure failed(const std::filesystem::path& path) {
  const int error = errno;
  return fail(KINORA_ERROR_IO, "{}: {}; nothing was saved. {}", path.string(), std::strerror(error),
              remedy_of(error));
}

// Whether the edit sets or resets one of these fields.
bool touches(const Edit& edit, const Change& fields) {
  return !core::same_fields(edit.set, fields).empty() || !core::same_fields(edit.cleared, fields).empty();
}

}  // namespace

std::string remedy_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "Free some space";
    case EROFS:
      return "Mount its file system for writing, or open the studio on a copy of the run";
    case EACCES:
    case EPERM:
      return "Make the file and its folder writable for you";
    case ELOOP:
      return "Put the file in place of the link";
    case ENOENT:
      return "The folder is gone; put it back or open the studio on the run's new place";
    default:
      return "Check the folder and its disk";
  }
}

std::string time_now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  tm utc{};
  gmtime_r(&t.tv_sec, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, t.tv_nsec / 1'000'000);
}

// The open file, locked against other studios while the object lives.
class EditJournal::Locked {
 public:
  explicit Locked(const std::filesystem::path& path) {
    const bool is_new = !std::filesystem::exists(path);
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file_ < 0) return;
    int error = EINTR;
    while (error == EINTR) error = flock(file_, LOCK_EX) == 0 ? 0 : errno;
    if (core::means_no_locks(error)) core::say_without_locks(path.parent_path());
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
// gets its newline. Anything else, such as a step without its end, is dropped and written to the log.
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
      "{}: the last lines are an incomplete edit and are removed: {}", path_.string(),
      nlohmann::json(rest.substr(0, 200)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

core::Result<bool> EditJournal::refresh() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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
  const int why = errno;
  return fmt::format("{}: {}; edits cannot be saved. {}, or browse without editing", asked.string(),
                     std::strerror(why), remedy_of(why));
}

core::Result<bool> EditJournal::reread() {
  forget();
  return refresh();
}

// Called under the lock, after read_all(). Bytes after the last step are an incomplete one.
core::Status EditJournal::append(int file, std::vector<Edit> step, const std::string& time) {
  std::string lines;
  for (size_t i = 0; i < step.size(); ++i) {
    step[i].time = time;
    step[i].author = author_;
    step[i].more = i + 1 < step.size();
    lines += line_of(step[i]);
  }
  const auto end = static_cast<off_t>(read_);
  if (ftruncate(file, end) != 0) return failed(path_);
  size_t written = 0;
  ssize_t n = 0;
  while (written < lines.size() && (n >= 0 || errno == EINTR)) {
    n = write(file, lines.data() + written, lines.size() - written);
    if (n == 0) errno = ENOSPC, n = -1;
    if (n > 0) written += static_cast<size_t>(n);
  }
  if (written < lines.size() || fsync(file) != 0) {
    core::Failure why = failed(path_);
    if (ftruncate(file, end) != 0) why.message += "; part of a line remains, which the next edit removes";
    return why;
  }
  history_.add(std::move(step));
  read_ += lines.size();
  return {};
}

// The last edit of the clip by another author, if it touches one of these fields and the person has not seen it.
const Edit* EditJournal::later_edit(const std::string& key, const Change& fields, size_t seen) const {
  const Edit* last = nullptr;
  for (const Edit* edit : history_.of(key))
    if (static_cast<size_t>(edit - history_.all().data()) >= seen && touches(*edit, fields)) last = edit;
  return last && last->author != author_ ? last : nullptr;
}

const Edit* EditJournal::conflict(const std::string& key, const Change& set, const Change& now,
                                  const EditRequest& request) const {
  if (set.caption && request.caption_seen && request.caption_seen != now.caption)
    return later_edit(key, {set.caption, {}, {}}, 0);
  return later_edit(key, {{}, set.reason, set.keep, {}, set.trim}, request.seen);
}

core::Result<Saved> EditJournal::change(const std::vector<Target>& clips, const EditRequest& request) {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status.failure();
  std::vector<Edit> step, conflicts;
  for (const Target& clip : clips) {
    const Change edited = history_.now(clip.key), now = overlaid(clip.own, edited);
    Change set = request.set;
    if (set.caption == now.caption) set.caption.reset();
    if (set.reason == now.reason) set.reason.reset();
    if (set.trim == now.trim) set.trim.reset();
    if (set.keep == edited.keep) set.keep.reset();  // accepting a kept clip is a decision too
    set.tags = now.tags.value_or(core::Tags());
    std::erase_if(*set.tags, [&](const auto& tag) { return std::ranges::count(request.untag, tag) > 0; });
    for (const auto& tag : request.tag)
      if (std::ranges::count(*set.tags, tag) == 0) set.tags->push_back(tag);
    if (*set.tags == now.tags.value_or(core::Tags())) set.tags.reset();
    if (set.empty()) continue;
    if (const Edit* other = conflict(clip.key, set, now, request)) {
      conflicts.push_back(*other);
      continue;
    }
    step.push_back({clip.key, "", "", set, same_fields(edited, set), EditKind::edit, {}, clip.of});
  }
  return append_step(locked.file(), std::move(step), std::move(conflicts), request.time);
}

core::Result<Saved> EditJournal::append_step(int file, std::vector<Edit> step, std::vector<Edit> conflicts,
                                             const std::string& time) {
  Saved out{{}, std::move(conflicts)};
  for (const Edit& edit : step) out.keys.push_back(edit.key);
  if (step.empty()) return out;
  if (Status status = append(file, std::move(step), time.empty() ? time_now() : time); !status)
    return status.failure();
  return out;
}

core::Result<Saved> EditJournal::undo(const Own& own) {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status.failure();
  std::vector<Edit> step, conflicts;
  for (const Edit* last : history_.undoable(author_)) {
    if (same_fields(history_.now(last->key), last->set) != last->set) {
      conflicts.push_back(changed_since(*last));
      continue;
    }
    Edit edit{last->key, "", "", {}, {}, EditKind::undo, {}, last->of};
    edit.set = same_fields(overlaid(own(last->key), last->was), last->set);
    if (last->set.keep && !last->was.keep) {  // the job's own outcome is not a user's decision
      edit.set.keep.reset();
      edit.cleared.keep = true;
    }
    if (last->set.trim && !last->was.trim) edit.cleared.trim.emplace();  // the whole clip
    step.push_back(std::move(edit));
  }
  return append_back(locked.file(), "undo", std::move(step), std::move(conflicts));
}

core::Result<Saved> EditJournal::redo() {
  const Locked locked(path_);
  if (locked.file() < 0) return failed(path_);
  if (Status status = read_all(locked.file()); !status) return status.failure();
  std::vector<Edit> step, conflicts;
  for (const Edit* last : history_.redoable(author_)) {
    if (same_fields(history_.now(last->key), last->set) != same_fields(last->was, last->set))
      conflicts.push_back(changed_since(*last));
    else
      step.push_back({last->key, "", "", last->set, {}, EditKind::redo, {}, last->of});
  }
  return append_back(locked.file(), "redo", std::move(step), std::move(conflicts));
}

// The edit by which another author has changed what `mine` set.
const Edit& EditJournal::changed_since(const Edit& mine) const {
  const Edit* other = later_edit(mine.key, mine.set, 0);
  return other ? *other : mine;
}

core::Result<Saved> EditJournal::append_back(int file, const char* word, std::vector<Edit> step,
                                             std::vector<Edit> conflicts) {
  if (step.empty() && conflicts.empty()) return fail(KINORA_ERROR_NOT_FOUND, "there is nothing to {}", word);
  if (step.empty())
    return fail(KINORA_ERROR_INVALID, "{}{}: another author ({}) has changed it since; edit it again",
                conflicts[0].key, conflicts.size() > 1 ? " and others" : "", conflicts[0].author);
  return append_step(file, std::move(step), std::move(conflicts), "");
}

}  // namespace kinora::studio
