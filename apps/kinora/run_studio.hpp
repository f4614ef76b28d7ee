// The studio beside a run of this process: `run --studio`.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "apps/studio/serve.hpp"
#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {

// $USER, or "user".
std::string user_name();

// The studio of a folder, which uses the runtime. Throws as studio::Studio does.
std::unique_ptr<studio::Studio> studio_of(core::Runtime&, const std::filesystem::path& dir,
                                          const std::string& author);

// Shows the clips of a run's curate jobs while they are made. The page that is opened before the first of them has
// begun waits for it.
class RunStudio {
 public:
  // Prints the address. Throws Error: the run has no curate job, or no port can be had. Borrows both.
  RunStudio(core::Runtime&, const core::RunFile&);
  RunStudio(const RunStudio&) = delete;
  RunStudio& operator=(const RunStudio&) = delete;
  // Ends it.
  ~RunStudio();

  // The run has ended: serves on until Ctrl-C, if there are clips to show.
  void stay();

 private:
  void work();
  bool has_begun() const;
  core::Runtime& runtime_;
  const core::RunFile& run_;
  studio::Serving serving_{0};
  std::atomic<bool> has_run_ended_ = false, ends_ = false, is_open_ = false, has_ended_ = false;
  std::thread thread_;
};

}  // namespace kinora
