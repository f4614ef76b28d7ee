#include "core/run/job_check.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/run/job.hpp"
#include "core/runtime/place.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool is_in(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

// Only the first line of a libtorch error is the message.
void JobCheck::problem(const Location& at, const std::string& message) {
  const Diagnostic said{at, "job '" + spec().name + "': " + message.substr(0, message.find('\n'))};
  const auto same = [&](const Diagnostic& p) { return format(p) == format(said); };  // two rules, one cause
  if (std::none_of(problems_.begin(), problems_.end(), same)) problems_.push_back(said);
}

void JobCheck::warning(const std::string& option, const std::string& message) const {
  if (!ahead_ || !here().first()) return;
  log_warn("{}", format(Diagnostic{spec().place(option), "job '" + spec().name + "': " + message}));
}

bool JobCheck::made_by_earlier_job(const fs::path& path) const {
  for (const auto& job : run().jobs) {
    if (job.name == spec().name) return false;
    if (is_in(path.lexically_normal(), folder_of(job))) return true;
  }
  return false;
}

bool JobCheck::finds(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return false;
  if (fs::exists(path, ignored)) return true;
  if (!ahead_ || !made_by_earlier_job(path))
    problem(option, option + ": no such file or folder: " + path +
                        (spec().inputs.empty() ? "" : ", and no earlier job of the run makes it") +
                        "; fix the path");
  return false;
}

void require(const JobContext& context) {
  std::vector<Diagnostic> problems;
  JobCheck asked(context.runtime(), context.run(), context.spec(), false, here().world, problems);
  job_type(context.runtime().registry(), *context.spec().kind).check(asked);
  if (problems.empty()) return;
  const std::string name = "job '" + context.spec().name + "': ";  // the catching code adds the name
  std::string all;
  for (const auto& p : problems) all += (all.empty() ? "" : "\n") + p.message.substr(name.size());
  throw Error(KINORA_ERROR_INVALID, all);
}

}  // namespace kinora::core
