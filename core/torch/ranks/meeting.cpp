#include "core/torch/ranks/meeting.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "core/build_info.hpp"
#include "core/io/contents.hpp"
#include "core/run/run_folder.hpp"
#include "core/runtime/call.hpp"
#include "core/torch/ranks/node_address.hpp"
#include "core/torch/weights/exchange.hpp"
#include "host/weights/weights.hpp"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {

Instance joined(const Component& collective, const Options& options, const LaunchPlace& here,
                const kinora_run* run) {
  auto out = instance_of<kinora_collective>(collective, options);
  kinora_world world{};
  world.struct_size = sizeof world;
  world.timeout_ms = static_cast<int32_t>(here.timeout_ms);
  world.rank = here.rank;
  world.size = here.world;
  const std::string rendezvous = reachable_rendezvous(here);
  world.rendezvous = rendezvous.c_str();
  world.run = run;
  check(collective.table<kinora_collective>().join(out.get(), &world));
  return out;
}

at::Tensor transferred(const kinora_group& group, uint32_t op, const at::Tensor& x) {
  if (group.size == 1) return x;
  return Group<at::Tensor>(&group).transfer({sizeof(kinora_transfer), op, 0, 0, 0, 0, handle(x)});
}

at::Tensor gather_rows(const kinora_group& group, const std::vector<double>& mine) {
  return transferred(group, KINORA_OP_ALL_GATHER, at::tensor(mine, at::kDouble).unsqueeze(0)).contiguous();
}

namespace {

namespace fs = std::filesystem;

const std::set<std::string> kOfTheMachine{"threads", "device", "memory", "prefetch", "cuda_graphs"};

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Digest of a file or folder that an option names, independent of its local path. `kept`: as in
// weights_digest().
std::string files_digest(const fs::path& path, const fs::path& kept) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(path, error))
      if (entry.is_regular_file(error)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else if (fs::is_regular_file(path, error)) {
    files.push_back(path);
  }
  return files.empty() ? "none" : weights_digest(files, kept);
}

// Adds the values of an object's members that are not paths.
void add_values(Facts& out, const std::string& what, const json& values,
                const std::vector<std::string>& paths) {
  const auto is_path = [&](const json& v) {
    return v.is_string() && std::find(paths.begin(), paths.end(), v.get<std::string>()) != paths.end();
  };
  for (const auto& [name, value] : values.items()) {
    const bool named = is_path(value) || (value.is_array() && !value.empty() && is_path(value[0]));
    if (!named && !kOfTheMachine.contains(name)) out.emplace_back(what + " " + name, value.dump());
  }
}

void add_files(Facts& out, const std::string& what, const Options& options, const fs::path& kept) {
  for (size_t i = 0; i < options.paths().size(); ++i)
    out.emplace_back(what + (i ? " " + std::to_string(i + 1) : ""), files_digest(options.paths()[i], kept));
}

// "0-3, 5"
std::string ranks_text(const std::vector<size_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += (i ? ", " : "") + std::to_string(ranks[i]);
    if (last > i) out += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string shown(const std::string& value) {
  return value.size() <= 72 ? value : value.substr(0, 72) + "...";
}

constexpr size_t kMost = 5;                                            // items listed in a message
using ItemOfRanks = std::pair<std::string, std::vector<std::string>>;  // name, and value on every rank

// In the order of facts_of(). Items that only some ranks have come last, since another item is their cause.
std::vector<ItemOfRanks> differing_items(const std::vector<Facts>& of_ranks) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, size_t> ranks;  // ranks that have it
  for (size_t r = 0; r < of_ranks.size(); ++r)
    for (const auto& [name, value] : of_ranks[r]) {
      if (ranks[name]++ == 0) names.push_back(name);
      auto& of_item = values[name];
      of_item.resize(of_ranks.size(), "none");
      of_item[r] = value;
    }
  std::vector<ItemOfRanks> out;
  for (const bool on_all : {true, false})
    for (const auto& name : names) {
      const auto& of_item = values[name];
      const bool differs =
          std::any_of(of_item.begin(), of_item.end(), [&](const auto& v) { return v != of_item[0]; });
      if (differs && (ranks[name] == of_ranks.size()) == on_all) out.emplace_back(name, of_item);
    }
  return out;
}

// "rank 2 has 8, ranks 0, 1 have 4": smallest group of ranks first.
std::string by_ranks(const std::vector<std::string>& values) {
  std::map<std::string, std::vector<size_t>> ranks;
  for (size_t r = 0; r < values.size(); ++r) ranks[values[r]].push_back(r);
  std::vector<std::pair<std::string, std::vector<size_t>>> by_number(ranks.begin(), ranks.end());
  // On a tie rank 0 counts as right, since its output is the one that users see.
  std::sort(by_number.begin(), by_number.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second[0] > b.second[0];
  });
  std::string out;
  for (const auto& [value, of] : by_number)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", ranks_text(of), of.size() == 1 ? "has" : "have",
                       shown(value));
  return out;
}

}  // namespace

std::string shards_digest(const fs::path& folder) {
  std::error_code error;
  std::string text;
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) files.insert(entry.path());
  for (const auto& file : files) {
    const bool is_index = file.extension() == ".idx" || file.parent_path().filename() == ".nv-meta";
    if (!is_index && file.extension() != ".tar") continue;
    text += fmt::format("{} {}\n", file.lexically_relative(folder).string(), fs::file_size(file, error));
    if (is_index) text += contents(file);
  }
  return text.empty() ? "none" : "sha256:" + sha256(text);
}

Facts facts_of(const JobView& job, int64_t ranks) {
  const JobSpec& spec = job.spec();
  const fs::path kept = kept_digests(job.run().out);
  const auto options = or_throw(Options::make(*spec.kind, spec.options));
  Facts out{{"job", spec.name},
            {"Kinora's version", KINORA_VERSION},
            {"number of ranks", std::to_string(ranks)},
            {"seed", std::to_string(job.run().seed)}};
  add_values(out, "option", options.values(), options.paths());
  add_files(out, "weights", options, kept);
  for (const auto& c : spec.components) {
    out.emplace_back(c.slot, c.id + " " + c.version);
    add_values(out, "option of " + c.id, c.options.values(), c.options.paths());
    add_files(out, "weights of " + c.id, c.options, kept);
  }
  for (const size_t input : spec.inputs) {
    const JobSpec& from = job.run().jobs[input];
    const std::string data = job_type(job.run(), from).data_digest(job.folder_of(from));
    out.emplace_back("data of job " + from.name, data.empty() ? shards_digest(job.folder_of(from)) : data);
  }
  return out;
}

std::string disagreements(const std::vector<Facts>& of_ranks) {
  const auto differing = differing_items(of_ranks);
  // Options of another job or component differ only as a consequence.
  const bool other_job = !differing.empty() && differing[0].first == "job";
  const size_t most = other_job ? 1 : kMost;
  std::string out;
  for (size_t i = 0; i < std::min(differing.size(), most); ++i)
    out += (i ? "; " : "") + differing[i].first + ": " + by_ranks(differing[i].second);
  if (differing.size() > most && !other_job) out += fmt::format("; and {} more", differing.size() - most);
  return out;
}

void add_folder(Facts& mine, const kinora_group& world, const fs::path& out) {
  constexpr auto kLate = std::chrono::seconds(35);  // how long a network disk may serve stale entries
  const auto begin = std::chrono::steady_clock::now();
  const std::string first = Exchange(world).gather(launch_number(out)).at(0);
  while (launch_number(out) != first && std::chrono::steady_clock::now() - begin < kLate)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  mine.emplace_back("the run's folder", launch_number(out) == first ? first : out.string());
}

void require_agreement(const kinora_group& world, const Facts& mine) {
  const std::string text = json(mine).dump(-1, ' ', false, json::error_handler_t::replace);
  const auto digests = Exchange(world).gather(sha256(text));
  if (std::all_of(digests.begin(), digests.end(), [&](const auto& d) { return d == digests[0]; })) return;
  std::vector<Facts> all;
  for (const auto& of_rank : Exchange(world).gather(text)) all.push_back(json::parse(of_rank).get<Facts>());
  throw Error(KINORA_ERROR_INVALID, "the ranks do not agree: " + disagreements(all) +
                                        "; start them with the same run file, files and --set");
}

}  // namespace kinora::core
