// The run that a call is part of, see abi/run.h.
#pragma once
#include <string>
#include <string_view>
#include <type_traits>

#include "kinora/abi/run.h"
#include "kinora/error.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Where a call computes.
struct Device {
  bool is_cuda = false;
  int32_t index = 0;  // of the CUDA device
};

class Run {
 public:
  explicit Run(const kinora_run* run) : run_(run) { refuse_unknown(run->needs, "the run"); }
  // Reports progress; throws Error(KINORA_ERROR_CANCELLED) if the run was asked to stop.
  void progress(int64_t done, int64_t of, kinora_tensor preview = nullptr) const {
    cancel(run_->progress ? run_->progress(run_->self, done, of, preview) : KINORA_OK);
  }
  // For long loops: throws if the run was asked to stop.
  void check_cancelled() const { cancel(run_->cancelled ? run_->cancelled(run_->self) : KINORA_OK); }
  // Standard normal numbers of like's shape and dtype, the same at every world size; use a different key for
  // each draw. Owned by the caller. Throws Error(KINORA_ERROR_UNSUPPORTED) in a run without noise.
  kinora_tensor noise(const char* key, kinora_tensor like) const {
    if (!run_->noise)
      throw Error(KINORA_ERROR_UNSUPPORTED, "noise '" + std::string(key) + "': this run has none to give");
    kinora_tensor out = nullptr;
    check(run_->noise(run_->self, key, like, &out));
    return out;
  }
  // The same as a kinora::Tensor, or an at::Tensor.
  template <class T>
  requires(!std::is_convertible_v<const T&, kinora_tensor>) T noise(const std::string& key, const T& like)
  const { return adopt<T>(noise(key.c_str(), handle(like))); }
  Device device() const { return {run_->device_type == KINORA_DL_CUDA, run_->device_id}; }
  uint64_t seed() const { return run_->seed; }
  int32_t threads() const { return run_->n_threads; }
  std::string_view out() const { return view(run_->out); }
  const kinora_run* get() const { return run_; }

 private:
  static void cancel(int32_t status) {
    if (status == KINORA_ERROR_CANCELLED) throw Error(status, "cancelled");
    check(status);
  }
  const kinora_run* run_;
};

}  // namespace kinora

KINORA_SDK_END
