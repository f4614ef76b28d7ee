#include "apps/serve/live_relay.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "apps/serve/api_error.hpp"
#include "core/base/facts.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;

// More than the systems' buffers and what a model is ahead take, and less than waits for a client (Limits).
constexpr size_t kMostKept = 32 << 20, kMostMessages = 4096;
constexpr size_t kLeastMessages = 3;    // that a model is ahead, and one
constexpr size_t kMostEvents = 10'000;  // of a session

// The file's bytes; the file ends.
std::string taken(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string out(std::istreambuf_iterator<char>(in), {});
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return out;
}

}  // namespace

void LiveRelay::tell(const std::string& id, const json& message) {
  const std::scoped_lock lock(mutex_);
  if (message.contains("start")) {
    start_ = message.at("start");
    say("video.start", id, start_);
  } else if (message.contains("chunk")) {
    keep(message.at("chunk"), taken(core::text_in(message, "file")));
    send(id, first_ + static_cast<int64_t>(kept_.size()) - 1);
  } else if (message.contains("error")) {
    say("error", id, message.at("error"));
  } else if (message.contains("failed") || message.contains("done")) {
    end_ = message;
    send_end(id);
  }
}

void LiveRelay::attach(const std::string& id, std::shared_ptr<web::Socket> socket, int64_t next) {
  const std::scoped_lock lock(mutex_);
  const int64_t all = first_ + static_cast<int64_t>(kept_.size());
  if (next < first_)
    throw ApiError(
        410,
        fmt::format("the messages before number {} are no longer kept; start a session with branch", first_),
        "too_late", "next_sequence");
  if (next > all)
    throw ApiError(400, fmt::format("next_sequence: the next message is number {} or an earlier one", all),
                   "invalid_value", "next_sequence");
  if (socket_) {
    say("error", id, {{"code", "taken_over"}, {"message", "another connection has resumed this session"}});
    socket_->close("taken over");
  }
  socket_ = std::move(socket);
  say("session.resumed", id, {{"next_sequence", next}, {"paused", videos_.is_paused(id)}});
  if (!start_.is_null()) say("video.start", id, start_);
  for (int64_t number = next; number < all; ++number) send(id, number);
  if (!end_.is_null()) send_end(id);
}

bool LiveRelay::detach(const std::shared_ptr<web::Socket>& socket) {
  const std::scoped_lock lock(mutex_);
  if (socket_ != socket) return false;
  socket_.reset();
  return true;
}

void LiveRelay::require_viewer(const std::shared_ptr<web::Socket>& socket) const {
  const std::scoped_lock lock(mutex_);
  if (socket_ != socket) throw ApiError(409, "another connection has resumed this session", "taken_over");
}

void LiveRelay::note_event(const std::string& event) {
  const std::scoped_lock lock(mutex_);
  if (events_.contains(event))
    throw ApiError(409, "event '" + event + "' was sent before", "event_id_conflict", "event_id");
  if (events_.size() >= kMostEvents)
    throw ApiError(429, fmt::format("a session takes {} events", kMostEvents), "too_many_events");
  events_.insert(event);
}

void LiveRelay::say(const char* type, const std::string& id, json of) {
  if (!socket_) return;
  of.update({{"type", type}, {"session_id", id}});
  socket_->text(dumped(of));
}

void LiveRelay::keep(json about, std::string bytes) {
  about["sequence"] = first_ + static_cast<int64_t>(kept_.size());
  about["byte_length"] = bytes.size();
  bytes_ += bytes.size();
  kept_.push_back({std::move(about), std::move(bytes)});
  while (kept_.size() > kLeastMessages && (bytes_ > kMostKept || kept_.size() > kMostMessages)) {
    bytes_ -= kept_.front().bytes.size();
    kept_.pop_front();
    ++first_;
  }
}

void LiveRelay::send(const std::string& id, int64_t number) {
  if (!socket_) return;
  const Kept& one = kept_[static_cast<size_t>(number - first_)];
  json about = one.about;
  about.update({{"type", "video.chunk_metadata"}, {"session_id", id}});
  socket_->binary(dumped(about), one.bytes, [&videos = videos_, id, number] {
    videos.steer(id, {{"taken", number + 1}});  // the process counts from 1
  });
}

void LiveRelay::send_end(const std::string& id) {
  const bool has_failed = end_.contains("failed");
  if (has_failed)
    say("error", id, {{"code", "generation_failed"}, {"message", core::text_in(end_, "failed")}});
  else
    say("session.done", id, end_.at("done"));
  if (socket_) socket_->close(has_failed ? "failed" : "done");
}

void LiveRelays::add(const std::string& id, const std::shared_ptr<LiveRelay>& relay) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(relays_, [](const auto& one) { return one.second.expired(); });
  relays_[id] = relay;
}

std::shared_ptr<LiveRelay> LiveRelays::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = relays_.find(id);
  auto out = at == relays_.end() ? nullptr : at->second.lock();
  if (!out)
    throw ApiError(404, "there is no session '" + id + "', or its lease is over; start another",
                   "session_not_found", "session_id");
  return out;
}

}  // namespace kinora::serve
