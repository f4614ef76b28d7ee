// The part of a session that other threads see and change while its own thread makes the video: its progress,
// its prompt and its cancellation.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "plugins/jobs/inference/shot.hpp"

namespace kinora::core::inference {

// [any-thread]
class SessionControl {
 public:
  // pipeline, number: of the video, in messages.
  SessionControl(std::string pipeline, int64_t number, std::string prompt)
      : pipeline_(std::move(pipeline)), number_(number), next_(plain(std::move(prompt))) {}

  // Acts from the next chunk on that has not begun. Throws Error(KINORA_ERROR_INVALID) if there is none, or
  // if the session was cancelled or has failed.
  void set_prompt(std::string prompt) { set_shot(plain(std::move(prompt))); }
  // The same with a cut or a switch. Its length is not read.
  void set_shot(Shot shot);
  void cancel() { is_cancelled_ = true; }
  bool is_cancelled() const { return is_cancelled_; }

  struct State {
    int64_t chunk = 0, chunks = 0;  // finished ones, and all; 0 before the first begins
    int64_t step = 0, steps = 0;    // of the current chunk: finished ones (or codes), and all
  };
  State state() const;

  // It was cancelled or has failed.
  bool has_ended() const;

  // [owner-thread] The following. begin_with: the first prompt, unless set_shot() gave one.
  void begin_with(std::string prompt);
  // begin_chunk returns the shot that begins with the chunk, if one does.
  std::optional<Shot> begin_chunk(int64_t chunks_left, int64_t steps);
  // The shot that began with this finished chunk; nothing: that of the chunk before it stayed.
  std::optional<Shot> shot_of(int64_t chunk) const;
  // The chunks from this one on have not begun. Their shots begin again until set_shot() gives another. Throws
  // Error(KINORA_ERROR_INVALID) if this chunk is not finished, or if the session was cancelled or has failed.
  void rewind(int64_t chunk);
  // The first finished chunks of another video, and its shots. It may have been cancelled or have failed.
  void continue_from(const SessionControl& other, int64_t chunks);
  void note_step(int64_t done);
  void end_chunk();
  // The session ended by an error. was_cancelled: it was asked to stop, itself or with the run.
  void fail(bool was_cancelled);

 private:
  static Shot plain(std::string prompt) {
    Shot out;
    out.prompt = std::move(prompt);
    out.cuts = false;
    return out;
  }
  std::optional<Shot> begins_at(int64_t chunk) const;  // with the lock

  const std::string pipeline_;
  const int64_t number_;
  std::atomic<bool> is_cancelled_{false};
  mutable std::mutex mutex_;       // of the following
  std::optional<Shot> next_;       // begins with the next chunk
  std::map<int64_t, Shot> shots_;  // by the chunk with which each begins
  State state_;
  int64_t begun_ = 0;     // chunks
  bool is_told_ = false;  // set_shot() was called
  bool has_failed_ = false;
};

}  // namespace kinora::core::inference
