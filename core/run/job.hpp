// JobView gives access to a job before it runs; JobContext adds what its work needs: the folder, metrics and progress.
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

// Appends one line of JSON per step or item; numbers keep 17 digits.
class Metrics {
 public:
  explicit Metrics(const std::filesystem::path& file);
  void line(const nlohmann::json&);
  // Drops the lines of steps after `step`: a killed process wrote them, and they will be written again.
  void rewind(int64_t step);
  // Drops all lines, for a job that rewrites those of its finished items.
  void clear();

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

// A job as its file describes it. Creates no files.
class JobView {
 public:
  JobView(Runtime& runtime, const RunFile& run, const JobSpec& spec)
      : runtime_(runtime), run_(run), spec_(spec) {}

  Runtime& runtime() const { return runtime_; }
  const RunFile& run() const { return run_; }
  const JobSpec& spec() const { return spec_; }
  std::filesystem::path folder_of(const JobSpec& job) const { return run_.out / job.name; }
  // The nearest upstream job of this kind, direct or indirect; null if there is none.
  const JobSpec* upstream(const std::string& kind) const;
  // The same; throws Error if there is none.
  const JobSpec& need_upstream(const std::string& kind) const;

  template <class O>
  O options() const {
    Describe<O> d;
    O::describe(d);
    return d.read(or_throw(Options::make(*spec_.kind, spec_.options)).abi());
  }
  // Opens the component of a slot with its options. Throws kinora::Error.
  Component open(const ComponentUse&) const;
  Component open_slot(const std::string& slot) const { return open(*spec_.component(slot)); }

 private:
  Runtime& runtime_;
  const RunFile& run_;
  const JobSpec& spec_;
};

class JobContext : public JobView {
 public:
  // writes: this process writes the job's metrics (rank 0 of a launch).
  JobContext(Runtime&, const RunFile&, const JobSpec&, bool writes = true);

  // The job's own folder, which exists. Only results and temporary files belong there.
  const std::filesystem::path& folder() const { return folder_; }

  Metrics& metrics() { return *metrics_; }
  // Counts and facts of the job, written to summary.json when it is done. Its member "results" lists the files that
  // the job writes outside its folder: {path relative to the folder: bytes}.
  nlohmann::json summary = {{"results", nlohmann::json::object()}};
  // A run struct for calls into components whose first sample has this global number. Valid while the context lives.
  kinora_run call(Progress* progress = nullptr, int64_t first_sample = 0);

 private:
  std::filesystem::path folder_;
  std::string out_uri_;
  std::unique_ptr<Metrics> metrics_;
  std::deque<Call> calls_;
};

}  // namespace kinora::core
