// Reports all problems of a job at once, before anything runs. A kind of job has one check function with the
// rules that its work relies on; `kinora check` calls it for every job, `kinora run` for those that will run.
#pragma once
#include <optional>

#include "core/run/job.hpp"

namespace kinora::core {

class JobCheck : public JobView {
 public:
  // ahead: nothing has run, so results of earlier jobs need not exist. Problems are added with the job's name
  // and the place of the option at fault. ranks: number of ranks of the launch; 0: unknown.
  JobCheck(Runtime& runtime, const RunFile& run, const JobSpec& spec, bool ahead, int64_t ranks,
           std::vector<Diagnostic>& problems)
      : JobView(runtime, run, spec), ahead_(ahead), ranks_(ranks), problems_(problems) {}

  bool ahead() const { return ahead_; }
  int64_t ranks() const { return ranks_; }
  void problem(const Location& at, const std::string& message);
  void problem(const std::string& option, const std::string& message) {
    problem(spec().place(option), message);
  }

  // Logs a warning with the place of the option, on rank 0. A job that begins checks again and does not repeat it.
  void warning(const std::string& option, const std::string& message) const;

  // Returns f(); if it throws, adds a problem of the option and returns nothing.
  template <class F>
  auto made(const std::string& option, F&& f) -> std::optional<decltype(f())> {
    try {
      return f();
    } catch (const std::exception& e) {
      problem(option, e.what());
      return std::nullopt;
    }
  }
  // The same for an f without a result; returns whether it did not throw.
  template <class F>
  bool holds(const std::string& option, F&& f) {
    return made(option, [&] { return f(), true; }).has_value();
  }

  // Whether the file or folder that an option names exists, or an earlier job of the file will make it. Adds
  // a problem if not; an empty name gives false without a problem.
  bool finds(const std::string& option, const std::string& path);
  // Whether the path is in the folder of an earlier job of the file.
  bool made_by_earlier_job(const std::filesystem::path& path) const;

 private:
  bool ahead_;
  int64_t ranks_;
  std::vector<Diagnostic>& problems_;
};

// Called at the start of a job: throws Error(KINORA_ERROR_INVALID) with the problems that its check reports,
// one per line.
void require(const JobContext&);

}  // namespace kinora::core
