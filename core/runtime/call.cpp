#include "core/runtime/call.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/quantity.hpp"
#include "core/base/terminal.hpp"
#include "core/runtime/place.hpp"
#include "core/runtime/tensor_service.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

kinora_run run_of(Call& call) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  run.seed = call.seed;
  run.self = &call;
  run.progress = [](void* self, int64_t done, int64_t, kinora_tensor preview) -> int32_t {
    auto& c = *static_cast<Call*>(self);
    if (c.progress) c.progress->update(done);
    if (cancelled()) return KINORA_ERROR_CANCELLED;
    return c.preview && preview ? guard([&] { c.preview(done, preview); }) : KINORA_OK;
  };
  run.cancelled = [](void*) -> int32_t { return cancelled() ? KINORA_ERROR_CANCELLED : KINORA_OK; };
  run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
    const auto& c = *static_cast<const Call*>(self);
    const std::string of_chunk = c.chunk > 0 ? fmt::format("chunk/{}/{}", c.chunk, key) : key;
    return draw_noise(c.seed, c.first_sample, of_chunk.c_str(), like, out);
  };
  return run;
}

kinora_run run_of(NeededCall& call) {
  kinora_run run = run_of(static_cast<Call&>(call));
  run.cancelled = [](void* self) -> int32_t {
    if (!cancelled()) return KINORA_OK;
    auto& call = *static_cast<NeededCall*>(static_cast<Call*>(self));
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    int64_t asked = 0;
    if (call.asked_to_stop.compare_exchange_strong(asked, now)) asked = now;
    return static_cast<double>(now - asked) >= 1e9 * call.patience ? KINORA_ERROR_CANCELLED : KINORA_OK;
  };
  return run;
}

namespace {

// `done` of 24 parts, green where there are colours.
std::string bar(int done) {
  const bool has_colours = draws_colours();
  return fmt::format("[{}{}{}{}] ", has_colours ? "\033[32m" : "", std::string(done, '#'),
                     has_colours ? "\033[0m" : "", std::string(24 - done, '.'));
}

}  // namespace

Progress::Progress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(draws()),
      finished_(!here().first()) {}

void Progress::update(int64_t done, const std::string& note) {
  const std::scoped_lock lock(mutex_);
  if (finished_) return;
  if (first_ < 0) {  // work done before this process started does not count for the rate
    first_ = std::max<int64_t>(0, done - 1);
  }
  done_ = done;
  note_ = note;
  const auto now = Clock::now();
  if (now - last_draw_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5))) return;
  if (!terminal_ && last_draw_ == Clock::time_point{}) {  // no line at the very start of a short job
    last_draw_ = now;
    return;
  }
  last_draw_ = now;
  draw(false);
}

void Progress::table(std::vector<std::string> lines) {
  const std::scoped_lock lock(mutex_);
  if (finished_ || !terminal_) return;
  table_ = std::move(lines);
  last_draw_ = Clock::now();
  draw(false);
}

void Progress::pace(std::string text) {
  const std::scoped_lock lock(mutex_);
  pace_ = std::move(text);
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  if (finished_) return;
  finished_ = true;
  if (terminal_ && (drawn_ || done_ > 0)) draw(true);
}

std::string Progress::line() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_ - std::max<int64_t>(0, first_)) / seconds : 0;
  std::string out = fmt::format("{:<10} ", label_);
  if (total_ > 0) {
    if (terminal_ && !finished_) out += bar(static_cast<int>(24 * std::min(done_, total_) / total_));
    out += fmt::format("{}/{} {}", done_, total_, unit_);
  } else {
    out += fmt::format("{} {}", done_, unit_);
  }
  if (!pace_.empty())
    out += ", " + pace_;
  else
    out += rate >= 0.1 || rate == 0 ? fmt::format(", {:.1f}/s", rate)
                                    : fmt::format(", {} each", duration_text(1 / rate));
  if (pace_.empty() && total_ > done_ && rate > 0)
    out += fmt::format(", {} left", duration_text(static_cast<double>(total_ - done_) / rate));
  if (!note_.empty() && (table_.empty() || finished_)) out += ", " + note_;
  return out;
}

void Progress::draw(bool last) {
  drawn_ = true;
  if (terminal_) {
    // Everything below is redrawn and the cursor stays at the bar, so that a log line replaces it.
    // A row that is too long would shift the rows below.
    const size_t columns = columns_of(STDERR_FILENO, 80) - 1;
    std::string text = "\r\033[J" + (last ? line() + "\n" : fitted_parts(line(), columns));
    if (!last) {
      for (const auto& row : table_) text += "\n" + fitted(row, columns);
      if (!table_.empty()) text += fmt::format("\033[{}A\r", table_.size());
    }
    std::fputs(text.c_str(), stderr);
  } else {
    std::fprintf(stderr, "%s\n", line().c_str());
  }
  std::fflush(stderr);
}

}  // namespace kinora::core
