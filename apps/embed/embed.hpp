// The C API's host (kinora/embed.h) and the stages that it opens.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/runtime/call.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/embed.h"
#include "plugins/jobs/loading/stage_chain.hpp"

namespace kinora::core::embed {

// Counts requests to stop. A call ends once there were more than at its beginning.
using Cancels = std::atomic<uint64_t>;

// As one line of JSON.
void write(const json& object, const kinora_sink& to);

// The run of the calls of one handle: they stop by `cancels`, whatever else this process was asked to stop.
struct OwnCall : Call {
  const Cancels* cancels = nullptr;
  std::atomic<uint64_t> at_begin = 0, beats = 0;
};

}  // namespace kinora::core::embed

// Stages that are open. Functions throw kinora::Error.
struct kinora_embed_stage {
 public:
  kinora_embed_stage(kinora::core::Registry&, const kinora_embed_stage_options&);

  void process(std::span<kinora_sample* const> in, const kinora_emit& to);
  void finish(const kinora_emit& to);
  kinora_resources resources();
  uint64_t beats() const { return call_.beats; }
  // All of kinora_embed_apply() but the opening. of_host: its requests to stop; at_begin: their number when the call
  // began. Returns whether the stages serve another apply().
  bool apply(std::span<kinora_sample* const> in, const kinora_emit& to,
             const kinora::core::embed::Cancels& of_host, uint64_t at_begin);

  kinora::core::embed::Cancels cancels = 0;
  bool has_died = false;  // the process of a single stage, in the last call

 private:
  // Does the work as the one call of this handle that is in progress.
  template <class F>
  void during(const kinora_emit& to, const kinora::core::embed::Cancels& by, uint64_t at_begin, F work);
  void process_by(kinora::core::StageInstance& stage, std::span<kinora_sample* const> in);
  void process_by_chain(std::span<kinora_sample* const> in);

  const std::string out_;
  std::atomic<bool> is_busy_ = false, is_finished_ = false;
  kinora::core::embed::OwnCall call_;
  kinora_run run_;
  kinora_emit to_{};  // of the current call
  kinora::core::StageChain chain_;
};

struct kinora_embed {
  std::unique_ptr<kinora::core::Runtime> runtime;
  void (*log)(void*, int32_t, kinora_str) = nullptr;
  void* user = nullptr;
  std::mutex mutex;
  std::string last_error;   // of the log, guarded by mutex: what a run that failed has said
  std::mutex run;           // a request to stop reaches the run in progress, never the next one
  bool is_running = false;  // guarded by run
  kinora::core::embed::Cancels cancels = 0;
  // Guarded by mutex: the stages of kinora_embed_apply() that no call uses now, by their text, the last used first.
  std::list<std::pair<std::string, std::unique_ptr<kinora_embed_stage>>> kept;

  void forget() {
    const std::scoped_lock lock(mutex);
    last_error.clear();
  }
  void line(int32_t level, std::string_view text) {
    if (level == KINORA_LOG_ERROR) {
      const std::scoped_lock lock(mutex);
      last_error = text;
    }
    if (log) log(user, level, kinora::str(text));
  }
};
