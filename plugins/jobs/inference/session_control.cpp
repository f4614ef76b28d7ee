#include "plugins/jobs/inference/session_control.hpp"

#include <utility>

#include <fmt/format.h>

#include "kinora/error.hpp"

namespace kinora::core::inference {

void SessionControl::set_shot(Shot shot) {
  const std::scoped_lock lock(mutex_);
  if (is_cancelled_ || has_failed_)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: video {:03} {}, so no chunk follows that a prompt would act on; set it in "
                            "another session",
                            pipeline_, number_, is_cancelled_ ? "was cancelled" : "has failed"));
  if (begun_ > 0 && begun_ == state_.chunks)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: a prompt acts from the next chunk on, and the last of {} of video {:03} has "
                            "begun; set it earlier, or in another session",
                            pipeline_, state_.chunks, number_));
  next_ = std::move(shot);
  is_told_ = true;
}

void SessionControl::begin_with(std::string prompt) {
  const std::scoped_lock lock(mutex_);
  if (!is_told_) next_ = plain(std::move(prompt));
}

bool SessionControl::has_ended() const {
  const std::scoped_lock lock(mutex_);
  return is_cancelled_ || has_failed_;
}

SessionControl::State SessionControl::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

std::optional<Shot> SessionControl::begin_chunk(int64_t chunks_left, int64_t steps) {
  const std::scoped_lock lock(mutex_);
  const int64_t chunk = state_.chunk;
  state_ = {chunk, chunk + chunks_left, 0, steps};
  ++begun_;
  if (next_) {  // no earlier plan for later chunks stays
    shots_.erase(shots_.lower_bound(chunk), shots_.end());
    shots_[chunk] = *std::exchange(next_, std::nullopt);
  }
  return begins_at(chunk);
}

std::optional<Shot> SessionControl::begins_at(int64_t chunk) const {
  const auto at = shots_.find(chunk);
  return at == shots_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<Shot> SessionControl::shot_of(int64_t chunk) const {
  const std::scoped_lock lock(mutex_);
  return begins_at(chunk);
}

void SessionControl::rewind(int64_t chunk) {
  const std::scoped_lock lock(mutex_);
  if (is_cancelled_ || has_failed_)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: video {:03} {}, so it is not rewound; rewind a branch of it", pipeline_,
                            number_, is_cancelled_ ? "was cancelled" : "has failed"));
  if (chunk < 0 || chunk >= state_.chunk)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: chunk {} of video {:03} is not finished, so it is not made again; finished "
                            "chunks: {}, counted from 0",
                            pipeline_, chunk, number_, state_.chunk));
  state_ = {chunk, state_.chunks, 0, state_.steps};
  begun_ = chunk;
}

void SessionControl::continue_from(const SessionControl& other, int64_t chunks) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  next_ = other.next_;
  shots_ = other.shots_;
  is_told_ = other.is_told_;
  state_ = {chunks, other.state_.chunks, 0, other.state_.steps};
  begun_ = chunks;
}

void SessionControl::note_step(int64_t done) {
  const std::scoped_lock lock(mutex_);
  state_.step = done;
}

void SessionControl::end_chunk() {
  const std::scoped_lock lock(mutex_);
  ++state_.chunk;
}

void SessionControl::fail(bool was_cancelled) {
  const std::scoped_lock lock(mutex_);
  has_failed_ = true;
  if (was_cancelled) is_cancelled_ = true;
}

}  // namespace kinora::core::inference
