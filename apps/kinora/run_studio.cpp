#include "apps/kinora/run_studio.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"

namespace kinora {
namespace {

bool is_curate(const core::JobSpec& job) { return job.kind->name == "curate"; }

}  // namespace

RunStudio::RunStudio(core::Runtime& runtime, const core::RunFile& run) : runtime_(runtime), run_(run) {
  if (std::ranges::none_of(run.jobs, is_curate))
    throw Error(KINORA_ERROR_INVALID,
                "--studio: " + run.file.string() + " has no curate job, whose clips the studio shows");
  std::cout << serving_.address() << std::endl;  // flushed: the caller may wait for this line
  thread_ = std::thread([this] { work(); });
}

RunStudio::~RunStudio() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void RunStudio::stay() {
  has_run_ended_ = true;
  while (!is_open_ && !has_ended_ && has_begun()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!is_open_) return;
  std::cout << "the studio stays at " << serving_.address() << " until Ctrl-C" << std::endl;
  thread_.join();
}

bool RunStudio::has_begun() const {
  std::error_code error;
  return std::ranges::any_of(run_.jobs, [&](const core::JobSpec& job) {
    return is_curate(job) && std::filesystem::exists(run_.out / job.name / "job.json", error);
  });
}

void RunStudio::work() {
  const auto stops = [this] { return ends_ || core::cancelled(); };
  for (; !stops(); std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const bool is_last = has_run_ended_;  // nothing changes any more
    if (!has_begun()) continue;
    // While a job moves its earlier results away, there may be none to open.
    const auto served = core::catching([&] {
      const auto studio = studio_of(runtime_, run_.out, user_name());
      is_open_ = true;
      serving_.run(runtime_, *studio, stops);
    });
    if (!served && !is_open_ && !is_last) continue;
    if (!served) core::log_error("studio: {}", served.failure().message);
    break;
  }
  has_ended_ = true;
}

}  // namespace kinora
