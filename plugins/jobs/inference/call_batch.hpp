// Model calls that several videos make together: the session of each, on a thread of its own, waits in its next call
// for those of the others, and one thread makes all of them in one call, along the batch. All else of a video (noise,
// sampler, guidance, progress, cancellation) stays its session's, so that it is the video that it is alone, within the
// rounding of a call of another size.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/torch/weights/weights.hpp"
#include "plugins/jobs/inference/turns.hpp"

namespace kinora::core::inference {

// [any-thread]
class CallBatch {
 public:
  // call: number of the function. in: tensors whose dimension 0 is the batch, and so is the result's.
  using Function = std::function<at::Tensor(uint32_t call, const NamedTensors& in)>;
  // As many BatchedVideos are made. turns: with the networks; it must outlive this object.
  CallBatch(Turns& turns, size_t videos) : turns_(turns), videos_(videos) {}
  CallBatch(const CallBatch&) = delete;
  CallBatch& operator=(const CallBatch&) = delete;
  // Calls that several videos shared.
  int64_t shared() const;

 private:
  friend class BatchedVideo;
  struct Ask {
    uint32_t call;
    const NamedTensors& in;
    at::Tensor out{};  // undefined: the video makes its call itself
    bool is_over = false;
  };
  static bool are_alike(const Ask& a, const Ask& b);
  at::Tensor call(uint32_t number, const NamedTensors& in, const Function& function);
  void leave();
  // The following with the lock. can_answer: no video is elsewhere than in its call, or none shares any more.
  bool can_answer() const { return has_failed_ || waiting_.size() >= videos_; }
  void answer_all(const Function& function);
  void answer(const std::vector<Ask*>& alike, const Function& function);

  Turns& turns_;
  mutable std::mutex mutex_;  // of all below; a thread that has it waits for no turn
  std::condition_variable changed_;
  size_t videos_;  // that have not left
  std::vector<Ask*> waiting_;
  int64_t shared_ = 0;
  bool has_failed_ = false;
};

// [owner-thread] A video of a batch until it leaves. The batch must outlive it.
class BatchedVideo {
 public:
  explicit BatchedVideo(CallBatch& batch) : batch_(batch) {}
  BatchedVideo(const BatchedVideo&) = delete;
  BatchedVideo& operator=(const BatchedVideo&) = delete;
  ~BatchedVideo() { leave(); }
  // function(call, in), or the video's rows of a call for several. The caller has a turn, which others have while it
  // waits. A shared call that fails is made again by each video alone, so that an error is that of one.
  at::Tensor operator()(uint32_t call, const NamedTensors& in, const CallBatch::Function& function) {
    return batch_.call(call, in, function);
  }
  // It makes no more calls: the others no longer wait for it.
  void leave() {
    if (!std::exchange(has_left_, true)) batch_.leave();
  }

 private:
  CallBatch& batch_;
  bool has_left_ = false;
};

}  // namespace kinora::core::inference
