// What a job can be asked before it runs, and what it is given to do its work: its options, its inputs, its
// folder, and ways to say how far it is.
#pragma once
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/options.hpp"
#include "core/run/call.hpp"
#include "core/run/progress.hpp"
#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/options.hpp"
#include "kinora/run.hpp"

namespace kinora::core {

// A line of JSON a step or an item, appended; numbers keep 17 digits.
class Metrics {
 public:
  explicit Metrics(const std::filesystem::path& file);
  void line(const nlohmann::json&);
  // Drops the lines of steps after `step`: a process that was killed had written them, and they come again.
  void rewind(int64_t step);
  // Drops all lines, for a job that writes those of its finished items again.
  void clear();

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

// A job as its file has it. Makes nothing.
class JobView {
 public:
  JobView(Runtime& runtime, const RunFile& run, const JobSpec& spec)
      : runtime_(runtime), run_(run), spec_(spec) {}

  Runtime& runtime() const { return runtime_; }
  const RunFile& run() const { return run_; }
  const JobSpec& spec() const { return spec_; }
  std::filesystem::path folder_of(const JobSpec& job) const { return run_.out / job.name; }
  // The nearest job of this kind among the inputs, and theirs; null if there is none.
  const JobSpec* upstream(const std::string& kind) const;
  // The same, or an Error that says what is needed.
  const JobSpec& need_upstream(const std::string& kind) const;

  template <class O>
  O options() const {
    Describe<O> d;
    O::describe(d);
    return d.read(or_throw(Options::make(*spec_.kind, spec_.options)).abi());
  }
  // The component of a slot, opened, with its options. Throws kinora::Error.
  Component open(const ComponentUse&) const;
  Component open_slot(const std::string& slot) const { return open(*spec_.component(slot)); }

 private:
  Runtime& runtime_;
  const RunFile& run_;
  const JobSpec& spec_;
};

class JobContext : public JobView {
 public:
  // writes: this process keeps the job's metrics (rank 0 of a launch).
  JobContext(Runtime&, const RunFile&, const JobSpec&, bool writes = true);

  // The job's own folder, which exists. Only results and temporary names go there.
  const std::filesystem::path& folder() const { return folder_; }

  Metrics& metrics() { return *metrics_; }
  // Counts and facts of the job, written to summary.json when it is done. Its member "results" is for what
  // the job writes outside its folder: {path from the folder: bytes}.
  nlohmann::json summary = {{"results", nlohmann::json::object()}};
  // A run struct for calls into components about samples from this global number on. Valid while the context
  // lives.
  kinora_run call(Progress* progress = nullptr, int64_t first_sample = 0);

 private:
  std::filesystem::path folder_;
  std::string out_uri_;
  std::unique_ptr<Metrics> metrics_;
  std::deque<Call> calls_;
};

}  // namespace kinora::core
