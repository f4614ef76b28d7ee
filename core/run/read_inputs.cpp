#include <algorithm>

#include "core/base/suggest.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job_results.hpp"
#include "core/run/run_reading.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

class InputReader {
 public:
  explicit InputReader(RunReading& all) : all_(all) {}

  void read(const std::string& pointer, const json& table, JobSpec& job) {
    json inputs = table.value("input", json::array());
    const bool is_list = inputs.is_array();
    if (inputs.is_string() || inputs.is_object()) inputs = json::array({inputs});
    const Location at = all_.doc.value(pointer + "/input");
    if (!inputs.is_array())
      return all_.problem(at, "'input' must be a job's name, a path or a table of data, or a list of them");
    if (inputs.empty() && job.kind->needs_input)
      all_.problem(job.at, "job '" + job.name + "' needs an input: " + wanted(*job.kind));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string place = pointer + "/input" + (is_list ? "/" + std::to_string(i) : "");
      const Location one = all_.doc.value(place);
      if (inputs[i].is_object()) {
        read_data_input(place, inputs[i], job);
      } else if (!inputs[i].is_string()) {
        all_.problem(one, "'input' must hold strings or a table, found " + inputs[i].dump());
      } else {
        read_input(one, inputs[i].get<std::string>(), job);
      }
    }
  }

 private:
  void read_data_input(const std::string& pointer, const json& table, JobSpec& job) {
    const Location at = all_.doc.value(pointer);
    const auto& reads = job.kind->reads;
    if (std::find(reads.begin(), reads.end(), "data") == reads.end())
      return all_.problem(
          at, "job kind " + job.kind->name + " takes no table of data; it reads " + wanted(*job.kind));
    if (job.data) return all_.problem(at, "a second table of data; write one, with a blend of both");
    job.data = read_data(
        all_.doc, pointer, table,
        [&](const Location& place, const std::string& path) { return set_of_shards(place, path, job); },
        source_reader(all_.doc, all_.registry, all_.run.file.parent_path(), all_.problems), all_.problems);
  }

  // The path of a set of shards, which becomes an input of the job; "" after a problem.
  std::string set_of_shards(const Location& at, const std::string& path, JobSpec& job) {
    const size_t jobs = job.inputs.size(), paths = job.paths.size();
    if (path.find('{') != path.npos && !is_uri(path)) {  // a pattern of shards
      job.paths.push_back((all_.run.file.parent_path() / path).lexically_normal().string());
    } else {
      read_input(at, path, job);
    }
    if (job.inputs.size() > jobs) return (all_.run.out / all_.run.jobs[job.inputs.back()].name).string();
    if (job.paths.size() == paths + 1) return job.paths.back();
    if (job.paths.size() > paths)
      all_.problem(at,
                   "'" + path + "' names " + std::to_string(job.paths.size() - paths) +
                       " files and folders; a set of shards is a folder, a .tar file or a pattern such as "
                       "shard-{000000..000012}.tar");
    return "";
  }

  // Whether a job of this name stands below `job`, before which only earlier ones were read.
  bool comes_later(const std::string& name, const JobSpec& job) const {
    const json jobs = all_.doc.root().value("job", json::array());
    return name != job.name && std::any_of(jobs.begin(), jobs.end(), [&](const json& table) {
             return table.is_object() && table.value("name", table.value("kind", json())) == name;
           });
  }

  static std::string too_late(const std::string& name, const JobSpec& job) {
    return "job '" + name + "' comes later; move it above job '" + job.name + "'";
  }

  void read_input(const Location& at, const std::string& input, JobSpec& job) {
    const auto& reads = job.kind->reads;
    if (input.empty())
      return all_.problem(at,
                          "'input' is empty; it takes " + (reads.empty() ? "nothing" : wanted(*job.kind)));
    if (all_.unread.contains(input)) {  // the problems of that job are already reported
      job.sound = false;
      return;
    }
    std::vector<std::string> names;
    const size_t before = job.inputs.size();
    for (size_t i = 0; i < all_.run.jobs.size(); ++i) {
      const auto& other = all_.run.jobs[i];
      names.push_back(other.name);
      if (!other.is_called(input)) continue;
      if (!reads.empty() && std::find(reads.begin(), reads.end(), other.kind->name) == reads.end())
        all_.problem(at, "job '" + input + "' is of kind " + other.kind->name + ", but " + job.kind->name +
                             " reads " + wanted(*job.kind));
      job.inputs.push_back(i);
    }
    if (job.inputs.size() > before) return;
    names.insert(names.end(), all_.unread.begin(), all_.unread.end());
    if (job.reads_folders() && input.find('/') != input.npos) return read_folder(at, input, job, names);
    if (std::find(reads.begin(), reads.end(), "path") == reads.end())
      return all_.problem(at, comes_later(input, job)
                                  ? too_late(input, job)
                                  : "no earlier job is called '" + input + "'" + did_you_mean(input, names));
    if (is_uri(input)) {  // read when the job runs: a check asks no server
      if (const auto status = check_uri(all_.registry, input); !status)
        all_.problem(at, status.failure().message);
      job.paths.push_back(input);
      return;
    }
    auto files = expand_input(all_.run.file, input);
    if (files.empty())
      all_.problem(at, comes_later(input, job) ? too_late(input, job)
                                               : explain_missing_input(all_.run.file, input, names));
    job.paths.insert(job.paths.end(), files.begin(), files.end());
  }

  // The folder of a finished job of another run. names: of the earlier jobs.
  void read_folder(const Location& at, const std::string& input, JobSpec& job,
                   const std::vector<std::string>& names) {
    const auto found = expand_input(all_.run.file, input);
    if (found.empty()) return all_.problem(at, explain_missing_input(all_.run.file, input, names));
    fs::path folder = found.front();
    if (!folder.has_filename()) folder = folder.parent_path();  // "runs/a/clips/"
    const std::string name = folder.filename().string();
    std::error_code error;
    if (fs::equivalent(folder.parent_path(), all_.run.out, error) &&
        (name == job.name || comes_later(name, job) || std::ranges::count(names, name) > 0))
      return all_.problem(at, "'" + input + "' is a job of this file; write input = \"" + name + "\"");
    const auto wrong = found.size() > 1
                           ? "'" + input + "' matches " + std::to_string(found.size()) + " folders; give one"
                           : problem_of_results(folder, kinds_of_jobs(*job.kind));
    if (!wrong.empty()) return all_.problem(at, wrong);
    job.paths.push_back(folder.string());
  }

  static std::string wanted(const ComponentSpec& kind) {
    std::string out;
    for (const auto& r : kind.reads)
      out += (out.empty() ? "" : " or ") + (r == "path"     ? "a path"
                                            : r == "data"   ? "a table of data"
                                            : r == "folder" ? "the folder of such a job of another run"
                                                            : "a job of kind " + r);
    return out;
  }

  static std::vector<std::string> kinds_of_jobs(const ComponentSpec& kind) {
    auto out = kind.reads;
    std::erase_if(out, [](const std::string& r) { return r == "path" || r == "data" || r == "folder"; });
    return out;
  }

  RunReading& all_;
};

}  // namespace

void read_inputs(RunReading& all, const std::string& pointer, const json& table, JobSpec& job) {
  InputReader(all).read(pointer, table, job);
}

}  // namespace kinora::core
