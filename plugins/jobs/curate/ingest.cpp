#include "plugins/jobs/curate/ingest.hpp"

#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "core/base/cancel.hpp"
#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "core/io/byte_source.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/items.hpp"

namespace kinora::core {
namespace {

// SHA-256 of a file on any storage, as 64 hexadecimal digits, read piece by piece. Throws kinora::Error;
// KINORA_ERROR_CANCELLED if the run is cancelled meanwhile.
std::string content_hash(const std::string& url) {
  const auto bytes = or_throw(open_bytes(url));
  std::vector<char> piece(size_t{4} << 20);
  Sha256 hash;
  for (uint64_t done = 0; done < bytes->size();) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const uint64_t got = or_throw(bytes->read(done, piece.data(), piece.size()));
    if (got == 0)
      throw Error(KINORA_ERROR_DATA, url + ": the file shrank while it was read; is it still being written?");
    hash.add(piece.data(), got);
    done += got;
  }
  return hash.hex();
}

}  // namespace

Ingest::Ingest(const InputRows& inputs, Record& record, const Options& options)
    : inputs_(inputs), record_(record), options_(options), unlisted_(record.unlisted_contents()) {
  contents_.script("CREATE TABLE content (sha256 TEXT PRIMARY KEY, at INTEGER) WITHOUT ROWID");
}

std::optional<Sample> Ingest::next() {
  while (at_ < inputs_.size()) {
    const Input input = inputs_[at_++];
    if (!input.error.empty()) {
      if (!record_.has_ended(input)) end(input, unread_line(input, "", input.error));
      continue;
    }
    if (is_no_file(input) || is_empty(input)) continue;
    if (options_.hash && (!knows_content(input) || is_empty(input) || is_duplicate(input))) continue;
    if (!record_.has_ended(input)) return video_of(input);
  }
  return std::nullopt;
}

// False: the video has ended here because it cannot be read.
bool Ingest::knows_content(const Input& input) {
  if (!record_.content(input).empty()) return true;
  if (record_.has_ended(input)) return false;
  try {
    record_.set_content(input, content_hash(input.url));
    return true;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED || e.code() == KINORA_ERROR_NO_MEMORY) throw;
    end(input, unread_line(input, "", e.what(), e.code()));
    return false;
  }
}

// A pipe or device may have a video's name. It ends here, so that no stage blocks on it.
bool Ingest::is_no_file(const Input& input) {
  if (input.size > 0 || is_remote(input.url)) return false;
  const auto regular = check_regular_file(input.url);
  if (!regular && !record_.has_ended(input))
    end(input, unread_line(input, "", regular.failure().message, regular.failure().code));
  return !regular;
}

// Most often an interrupted download. It ends here, and is not a copy of other empty files.
bool Ingest::is_empty(const Input& input) {
  static const std::string kOfNothing = sha256("");
  if (!input.is_empty() && record_.content(input) != kOfNothing) return false;
  if (!record_.duplicate_of(input).empty() && record_.has_ended(input)) {
    record_.forget(input);
    --ended_;
  }
  if (!record_.has_ended(input))
    end(input, unread_line(input, "", input.url + ": the file is empty; fetch it again"));
  return true;
}

// An earlier run's answer holds only if it is still true: inputs before this one may have been added or
// removed.
bool Ingest::is_duplicate(const Input& input) {
  if (!options_.drop_duplicates) return false;
  const std::string content = record_.content(input), said = record_.duplicate_of(input);
  const auto unlisted = unlisted_.find(content);
  const Input first = first_with(content, input);
  const std::string copied = unlisted != unlisted_.end() ? unlisted->second
                             : first.key == input.key    ? ""
                                                         : first.key;
  if (record_.has_ended(input) && said != copied) {
    record_.forget(input);
    --ended_;
  }
  if (copied.empty()) return false;
  if (record_.has_ended(input)) return true;
  if (!record_.ended_of(input).empty()) record_.forget(input);
  if (copied == first.key) say_lost(input, first);
  json line = unread_line(input, "ingest.duplicate", "");
  line["of"] = copied;
  line["facts"]["sha256"] = content;
  end(input, line);
  return true;
}

// The first listed video with the same bytes as this one.
Input Ingest::first_with(const std::string& content, const Input& input) {
  contents_.run("INSERT OR IGNORE INTO content VALUES (?, ?)", content, at_ - 1);
  const auto at = static_cast<size_t>(contents_.number("SELECT at FROM content WHERE sha256 = ?", content));
  return at + 1 == at_ ? input : inputs_[at];
}

// Warns about the copy's own manifest columns, which are lost with it.
void Ingest::say_lost(const Input& copy, const Input& first) const {
  std::vector<std::string> lost;
  if (copy.caption && copy.caption != first.caption) lost.emplace_back("caption");
  for (const auto& [column, value] : copy.user.items())
    if (const auto at = first.user.find(column); at == first.user.end() || *at != value)
      lost.push_back(column);
  if (!lost.empty())
    log_warn(
        "{}: it is a copy of {} and is left out with the columns that only its own manifest line has: {}; "
        "add them to the line of {}, or set duplicates = \"keep\"",
        copy.key, first.key, fmt::join(lost, ", "), first.key);
}

void Ingest::end(const Input& input, const json& line) {
  const bool has_failed = line["end"] == "failed";
  if (has_failed) log_warn("{}: {}", input.key, line["reason"].get<std::string>());
  record_.end(line, {0, {input.key}, {}}, json::object());
  ++ended_;
  ++(has_failed ? failed_ : filtered_);
}

Sample Ingest::video_of(const Input& input) const {
  Sample video(input.key);
  video.set("url", input.url);
  json facts = json::object();
  // The source of a clip; edits of it are identified by this too (subject_of).
  if (const auto content = record_.content(input); !content.empty())
    facts["sha256"] = content;
  else
    facts["url"] = input.url;
  if (!input.user.empty()) facts["user"] = input.user;
  if (input.caption) {
    facts["caption"] = {{"by", "user"}};
    video.set("txt", *input.caption);
  }
  if (!facts.empty()) video.set("json", facts.dump(-1, ' ', false, json::error_handler_t::replace));
  if (const auto ended = record_.ended_of(input); !ended.empty()) video.set("ended.json", json(ended).dump());
  return video;
}

}  // namespace kinora::core
