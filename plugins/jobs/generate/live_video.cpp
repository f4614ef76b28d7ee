#include "plugins/jobs/generate/live_video.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/inference/shots.hpp"

namespace kinora::core {

using nlohmann::json;

namespace {
constexpr std::chrono::milliseconds kLook{100};  // for a signal
constexpr std::chrono::seconds kPatience{90};    // longer than a server waits for a sign of life
}  // namespace

void LiveMail::push(json message) {
  const std::scoped_lock lock(mutex_);
  messages_.push_back(std::move(message));
  has_mail_.notify_all();
}

std::optional<json> LiveMail::next(const std::string& id, std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  const auto has_mail = [&] {
    std::erase_if(messages_, [&](const json& one) { return text_in(one, "steer") != id; });
    return !messages_.empty();
  };
  if (!has_mail_.wait_until(lock, until, has_mail)) return std::nullopt;
  json out = std::move(messages_.front());
  messages_.pop_front();
  return out;
}

LiveVideo::LiveVideo(About about, inference::Session& session, const VideoFragments& writer,
                     VideoFragments::Form form, LiveMail& mail, Tell tell)
    : about_(std::move(about)),
      session_(session),
      writer_(writer),
      form_(std::move(form)),
      mail_(mail),
      tell_(std::move(tell)),
      shots_(about_.past.shots),
      ends_(about_.past.ends) {
  shots_.try_emplace(0, json{{"prompt", about_.prompt}, {"cut", false}});
  ends_.resize(static_cast<size_t>(session_.state().chunk));
}

json LiveVideo::run() {
  const at::NoGradGuard off;
  try {
    while (may_make()) {
      begin_chunk();
      const auto frames = session_.next_chunk();
      if (!frames) break;
      give(*frames);
    }
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_CANCELLED) throw;
    reason_ = "stopped";
  }
  return {{"reason", reason_.empty() ? "completed" : reason_},
          {"chunks", ends_.size()},
          {"num_frames", ends_.empty() ? 0 : ends_.back()},
          {"shots", shots()}};
}

bool LiveVideo::may_make() {
  while (reason_.empty()) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const auto now = Clock::now();
    const bool waits = is_paused_ || sent_ - taken_ >= kAhead, is_ready = !waits && now >= may_begin_;
    const Clock::time_point look = waits ? now + kLook : std::min<Clock::time_point>(may_begin_, now + kLook);
    const auto message = mail_.next(about_.id, is_ready ? now : look);
    if (message) {
      obey(*message);
      active_ = now;
    } else if (is_ready) {
      return true;
    } else if (waits && now - active_ > kPatience) {
      reason_ = "stalled";
    }
  }
  return false;
}

void LiveVideo::obey(const json& message) {
  try {
    if (message.contains("taken")) taken_ = std::max<int64_t>(taken_, message.at("taken"));
    if (message.contains("pause")) is_paused_ = message.at("pause");
    if (message.contains("stop")) reason_ = "stopped";
    if (message.contains("rewind")) rewind(message.at("rewind"));
    if (message.contains("prompt")) change(message);
  } catch (const Error& e) {
    std::string why = e.what();
    constexpr std::string_view kVideo = "video 000";  // as all sessions' videos are numbered
    if (const size_t at = why.find(kVideo); at != why.npos) why.replace(at, kVideo.size(), "the session");
    json error{{"code", "invalid_value"}, {"message", why}};
    if (message.contains("event_id")) error["event_id"] = message.at("event_id");
    tell_({{"error", error}});
  }
}

// A plain prompt is for every model that makes chunks; a cut or a switch needs its cache.
void LiveVideo::change(const json& message) {
  json shot{{"prompt", text_in(message, "prompt")}, {"cut", message.value("cut", false)}}, whole = shot;
  for (const char* name : {"switch", "blend"})
    if (message.contains(name)) whole[name] = shot[name] = message.at(name);
  whole["chunks"] = 1;  // as a list of shots has it; the next change ends it
  const Shot begins = shots_of({whole.dump()}).front();
  if (begins.cuts || begins.change != PromptSwitch::none)
    session_.set_shot(begins);
  else
    session_.set_prompt(begins.prompt);
  transition_ = begins.change == PromptSwitch::blend ? begins.blend : 1;
  shot_ = std::move(shot);
  events_.push_back(text_in(message, "event_id"));
}

void LiveVideo::rewind(int64_t chunk) {
  session_.rewind(chunk);
  ends_.resize(static_cast<size_t>(chunk));
}

// As the session does: no earlier plan for later chunks stays.
void LiveVideo::begin_chunk() {
  if (!shot_) return;
  const int64_t chunk = session_.state().chunk;
  shots_.erase(shots_.lower_bound(chunk), shots_.end());
  shots_[chunk] = *std::exchange(shot_, std::nullopt);
  // A transition ends where the next one begins.
  completes_ = {{chunk, completed_by(std::numeric_limits<int64_t>::max())}};
  auto& last = completes_[chunk + (chunk == 0 ? 1 : transition_) - 1];
  last.insert(last.end(), events_.begin(), events_.end());
}

std::vector<std::string> LiveVideo::completed_by(int64_t chunk) {
  std::vector<std::string> out;
  while (!completes_.empty() && completes_.begin()->first <= chunk)
    std::ranges::move(completes_.extract(completes_.begin()).mapped(), std::back_inserter(out));
  return out;
}

void LiveVideo::give(const at::Tensor& frames) {
  const int64_t chunk = session_.state().chunk - 1, count = frames.size(0);
  ends_.resize(static_cast<size_t>(chunk));  // one whose chunks come at once has those before it too
  const int64_t first = ends_.empty() ? 0 : ends_.back();
  ends_.push_back(first + count);
  encode(frames);
  if (!init_.empty()) {
    tell_({{"start",
            {{"mime", stream_->mime()},
             {"width", frames.size(2)},
             {"height", frames.size(1)},
             {"fps", form_.fps},
             {"num_frames", session_.frames()},
             {"chunks", session_.state().chunks}}}});
    send({{"kind", "init"}}, std::exchange(init_, {}));
  }
  send({{"kind", "media"},
        {"num_frames", count},
        {"generation_chunk_index", chunk},
        {"first_frame", first},
        {"started_event_ids", events_},
        {"completed_event_ids", completed_by(chunk)}},
       std::exchange(fragment_, {}));
  events_.clear();
  active_ = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(count) / form_.fps));
  plays_until_ = std::max(plays_until_, active_) + length;
  may_begin_ = plays_until_ - kAhead * length;
}

void LiveVideo::encode(const at::Tensor& frames) {
  const at::Tensor all = frames.cpu().contiguous();
  if (!stream_) {
    form_.height = all.size(1);
    form_.width = all.size(2);
    stream_ = writer_.open(form_, [this](std::span<const uint8_t> bytes, VideoFragments::Kind kind) {
      (kind == VideoFragments::Kind::init ? init_ : fragment_).append(bytes.begin(), bytes.end());
    });
  }
  stream_->add(all.data_ptr<uint8_t>(), all.size(0));
}

void LiveVideo::send(json about, const std::string& bytes) {
  const auto file = about_.folder / std::to_string(++sent_);
  std::ofstream out(file, std::ios::binary);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    throw Error(KINORA_ERROR_IO, file.string() + ": writing failed; free some space and start again");
  tell_({{"chunk", std::move(about)}, {"file", file.string()}, {"number", sent_}});
}

json LiveVideo::shots() const {
  json out = json::array();
  const auto chunks = static_cast<int64_t>(ends_.size());
  for (auto at = shots_.begin(); at != shots_.end() && at->first < chunks; ++at) {
    const auto next = std::next(at);
    const int64_t end = next == shots_.end() ? chunks : std::min(next->first, chunks);
    out.push_back(at->second);
    out.back()["chunks"] = end - at->first;
  }
  return out;
}

}  // namespace kinora::core
