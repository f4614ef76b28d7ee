// What is wrong with a job is said before anything is done, all of it at once. A kind of job has one function
// for it, of the rules that its work begins with; `kinora check` asks it of every job, `kinora run` of those
// that are to be done.
#pragma once
#include <optional>

#include "core/run/job.hpp"
#include "kinora/abi/stage.h"

namespace kinora::core {

class JobCheck : public JobView {
 public:
  // ahead: nothing has run, so what earlier jobs make need not be there. Problems are added with the job's
  // name and the place of the option at fault. ranks: of the launch; 0: not known.
  JobCheck(Runtime& runtime, const RunFile& run, const JobSpec& spec, bool ahead, int64_t ranks,
           std::vector<Diagnostic>& problems)
      : JobView(runtime, run, spec), ahead_(ahead), ranks_(ranks), problems_(problems) {}

  bool ahead() const { return ahead_; }
  int64_t ranks() const { return ranks_; }
  void problem(const Location& at, const std::string& message);
  void problem(const std::string& option, const std::string& message) {
    problem(spec().place(option), message);
  }

  // What f returns; nothing if it throws, which is then a problem of the option.
  template <class F>
  auto made(const std::string& option, F&& f) -> std::optional<decltype(f())> {
    try {
      return f();
    } catch (const std::exception& e) {
      problem(option, e.what());
      return std::nullopt;
    }
  }
  // The same of an f that returns nothing: whether it did not throw.
  template <class F>
  bool holds(const std::string& option, F&& f) {
    return made(option, [&] { return f(), true; }).has_value();
  }

  // Whether there is a file or folder of the name that an option gives, or an earlier job of the file is to
  // make it; false with a problem if not, and without one if the name is empty.
  bool finds(const std::string& option, const std::string& path);
  // A stage of this slot can be made. One that may run in a process of its own is made in one, so that a crash is a problem
  // too.
  void stage(const ComponentUse& use);

  // Whether the path is in the folder of a job before this one in the file.
  bool made_by_earlier_job(const std::filesystem::path& path) const;

 private:
  bool ahead_;
  int64_t ranks_;
  std::vector<Diagnostic>& problems_;
};

// What an instance of a job's stage says of itself, made for this: in a process of its own where it may run in one. Throws
// Error, WorkerDied.
kinora_resources resources_of(const JobView&, const ComponentUse& stage);

// At the start of a job: throws Error(KINORA_INVALID) with what its check reports, a line each.
void require(const JobContext&);

// What is wrong with these jobs before any has run, in a launch of so many ranks; 0: of any number. A job is
// left out if reading it, or one it depends on, found errors.
std::vector<Diagnostic> check_jobs(Runtime&, const RunFile&, const std::vector<bool>& which, int64_t ranks);
std::vector<Diagnostic> check_jobs(Runtime&, const RunFile&, int64_t ranks);

}  // namespace kinora::core
