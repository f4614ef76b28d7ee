#include "plugins/jobs/training/checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/contents.hpp"
#include "core/io/fence.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kEma = "ema-", kTensors = ".safetensors", kIndex = ".index.json";
constexpr std::string_view kDamaged = ".damaged";
constexpr const char* kState = "state.json";
constexpr int kFormat = 2;

std::string folder_name(int64_t step) { return fmt::format("step-{:06}", step); }

// The step number in "step-000100", or nothing.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with("step-")) return std::nullopt;
  int64_t step = 0;
  const char *begin = name.data() + 5, *end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && step >= 0 && folder_name(step) == name ? std::optional(step)
                                                                                     : std::nullopt;
}

// The step number in "step-000100.damaged" or "step-000100.damaged-2", or nothing.
std::optional<int64_t> damaged_step_of(const std::string& name) {
  const size_t at = name.find(kDamaged);
  if (at == name.npos) return std::nullopt;
  const std::string after = name.substr(at + kDamaged.size());
  const bool is_number =
      after.size() > 1 && after[0] == '-' && after.find_first_not_of("0123456789", 1) == after.npos;
  return after.empty() || is_number ? step_of(name.substr(0, at)) : std::nullopt;
}

// Complete checkpoints, fewest steps first.
std::vector<std::pair<int64_t, fs::path>> complete(const fs::path& root) {
  std::vector<std::pair<int64_t, fs::path>> out;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (const auto step = step_of(it->path().filename().string());
        step && fs::exists(it->path() / kState, error))
      out.emplace_back(*step, it->path());
  std::sort(out.begin(), out.end());
  return out;
}

json to_json(const TrainState& s) {
  return {{"format", kFormat},
          {"files", list_json(s.files)},
          {"step", s.step},
          {"steps", s.steps},
          {"samples_seen", s.samples_seen},
          {"optimizer_steps", s.optimizer_steps},
          {"ema_updates", s.ema_updates},
          {"skipped", s.skipped},
          {"skipped_in_a_row", s.skipped_in_a_row},
          {"loss", s.loss},
          {"loss_by_sigma", s.by_sigma.to_json()},
          {"rounding", s.rounding},
          {"facts", s.facts},
          {"lost", s.lost},
          {"offsets", s.offsets},
          {"config_hash", s.config_hash}};
}

TrainState state_from(const json& j) {
  TrainState s;
  s.step = j.at("step");
  s.steps = j.value("steps", int64_t{0});
  s.samples_seen = j.at("samples_seen");
  s.optimizer_steps = j.at("optimizer_steps");
  s.ema_updates = j.at("ema_updates");
  s.skipped = j.value("skipped", int64_t{0});
  s.skipped_in_a_row = j.value("skipped_in_a_row", int64_t{0});
  s.files = list_from(j.value("files", json::object()));
  s.loss = j.value("loss", 0.0);
  s.by_sigma = SigmaLosses::from_json(j.at("loss_by_sigma"));
  s.rounding = j.value("rounding", json());
  s.facts = j.value("facts", json());
  s.lost = j.value("lost", json());
  s.offsets = j.at("offsets").get<std::map<std::string, uint64_t>>();
  s.config_hash = j.at("config_hash");
  return s;
}

// Throws Error whose message begins with the file's name in the folder.
TrainState state_in(const fs::path& folder) {
  const auto text = read_regular_file(folder / kState);
  if (!text) raise(KINORA_ERROR_DATA, "{} cannot be read: {}", kState, text.failure().message);
  try {
    const auto j = json::parse(*text);
    if (j.at("format") != kFormat)
      raise(KINORA_ERROR_UNSUPPORTED, "{} has format {}, of another version; this Kinora reads {}", kState,
            j.at("format").dump(), kFormat);
    return state_from(j);
  } catch (const json::parse_error& e) {
    raise(KINORA_ERROR_DATA, "{} is damaged: it is not valid JSON at byte {} of {}", kState,
          std::min(e.byte, text->size()), text->size());
  } catch (const json::exception& e) {  // "[json.exception.out_of_range.403] key 'step' not found"
    const std::string what = e.what();
    raise(KINORA_ERROR_DATA, "{} is damaged: {}", kState, what.substr(what.find("] ") + 2));
  }
}

// Folders that are checkpoints by their names, absolute, most steps first.
std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (const auto step = step_of(it->path().filename().string()); step && it->is_directory(error))
      found.emplace_back(*step, fs::absolute(it->path()).string());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> out;
  for (auto& [step, name] : found) out.push_back(std::move(name));
  return out;
}

// All files in a folder. written: what the ranks wrote; the others, small indices, are read.
std::vector<ListedFile> listed(const fs::path& folder, std::vector<ListedFile> written) {
  std::set<std::string> known;
  for (const auto& f : written) known.insert(f.name);
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); !known.contains(name))
      written.push_back({name, entry.file_size(), sha256_of_file(entry.path())});
  return written;
}

// "ema-0.99" for ema-0.99.safetensors and for ema-0.99.safetensors.index.json; not for the shards.
std::set<std::string> stems_in(const fs::path& folder) {
  static const std::regex shard(R"(.*-\d{5}-of-\d{5})");
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(kIndex)) name.resize(name.size() - kIndex.size());
    if (!name.ends_with(kTensors)) continue;
    name.resize(name.size() - kTensors.size());
    if (!std::regex_match(name, shard)) out.insert(name);
  }
  return out;
}

}  // namespace

std::vector<TensorFile> checkpoint_files(CheckpointFiles files) {
  std::vector<TensorFile> out;
  for (auto& [stem, holdings] : files) {
    out.push_back({.name = stem + std::string(kTensors), .holdings = std::move(holdings)});
    if (stem == "weights" || stem.starts_with(kEma)) out.back().metadata = {{"format", "pt"}};
  }
  return out;
}

NewCheckpoint::NewCheckpoint(const fs::path& root, TrainState state, std::vector<TensorFile> files,
                             const Exchange& exchange, uint64_t shard_size)
    : exchange_(exchange), state_(std::move(state)), files_(std::move(files), exchange, shard_size) {
  exchange_.on_first([&] {
    std::error_code error;
    fs::create_directories(root, error);
    if (error)
      raise(KINORA_ERROR_IO,
            "{}: cannot be created: {}; make the folder writable or choose another output folder",
            root.string(), error.message());
    name_ = fs::absolute(root) / folder_name(state_.step);
    own_ = or_throw(AtomicFolder::create(name_));
    folder_ = own_->temporary();
  });
  folder_ = exchange_.gather(folder_.string()).at(0);
}

fs::path NewCheckpoint::commit(std::exception_ptr failure) {
  exchange_.agree(failure);
  const auto written = files_.written();
  exchange_.on_first([&] {
    files_.finish(folder_);
    state_.files = listed(folder_, written);
    or_throw(write_file_atomically(folder_ / kState, to_json(state_).dump(2) + "\n"));
    or_throw(own_->commit(/*replace=*/true));  // a run that was rolled back saves the same step again
  });
  return name_;
}

namespace {

// Names what is missing or damaged in a checkpoint; "" if nothing is. Collective; a rank reads every size-th file.
std::string fault_in(const fs::path& folder, const Exchange& exchange) {
  std::string own;
  exchange.together([&] {
    try {
      if (std::error_code ignored; !fs::exists(folder / kState, ignored)) {
        own = std::string(kState) + " is missing";
        return;
      }
      const auto files = state_in(folder).files;
      for (size_t i = 0; i < files.size() && own.empty(); ++i) own = fault_of(folder, files[i], false);
      uint64_t bytes = 0;
      for (const auto& f : files) bytes += f.bytes;
      if (own.empty() && exchange.rank() == 0 && bytes > 1'000'000'000)
        log_info("{}: comparing the digests of its files, {:.1f} GB", folder.string(),
                 static_cast<double>(bytes) / 1e9);
      for (size_t i = 0; i < files.size() && own.empty(); ++i)
        if (static_cast<int64_t>(i) % exchange.size() == exchange.rank())
          own = fault_of(folder, files[i], true);
    } catch (const Error& e) {
      if (e.code() == KINORA_ERROR_CANCELLED) throw;
      own = e.what();
    }
  });
  for (const auto& one : exchange.gather(own))
    if (!one.empty()) return one;
  return "";
}

fs::path set_aside(const fs::path& folder) {
  or_throw(may_publish(folder));
  fs::path to = folder.string() + std::string(kDamaged);
  for (int n = 2; fs::exists(to); ++n) to = fmt::format("{}{}-{}", folder.string(), kDamaged, n);
  fs::rename(folder, to);
  return to;
}

}  // namespace

std::optional<fs::path> whole_checkpoint(const fs::path& root, const Exchange& exchange) {
  const json names = json::parse(exchange.gather(json(names_in(root)).dump()).at(0));
  std::vector<std::pair<fs::path, std::string>> damaged;
  std::optional<fs::path> whole;
  for (const std::string name : names) {
    if (const auto fault = fault_in(name, exchange); !fault.empty())
      damaged.emplace_back(name, fault);
    else
      whole = name;
    if (whole) break;
  }
  if (!whole && !damaged.empty())
    raise(
        KINORA_ERROR_DATA,
        "{}: {}; no earlier checkpoint is whole; copy the folder again from where it is whole, or remove {} "
        "to start from scratch",
        damaged[0].first.string(), damaged[0].second, root.string());
  exchange.on_first([&] {
    for (const auto& [folder, fault] : damaged)
      log_warn(
          "{}: {}; it is now {}, which the next checkpoint of its step or a later one removes, and the "
          "checkpoint before it is taken, {}",
          folder.string(), fault, set_aside(folder).filename().string(), whole->filename().string());
  });
  return whole;
}

std::optional<fs::path> latest_checkpoint(const fs::path& root) {
  const auto all = complete(root);
  return all.empty() ? std::nullopt : std::optional(all.back().second);
}

Checkpoint load_checkpoint(const fs::path& folder, const std::string& config_hash) {
  Checkpoint c;
  if (!fs::exists(folder / kState))
    raise(KINORA_ERROR_NOT_FOUND, "{}: not a checkpoint (it has no {})", folder.string(), kState);
  try {
    c.state = state_in(folder);
  } catch (const Error& e) {
    const bool is_newer = e.code() == KINORA_ERROR_UNSUPPORTED;
    raise(e.code(), "{0}: {1}; {2}, or remove {0} to continue from the checkpoint before", folder.string(),
          e.what(), is_newer ? "use the Kinora that wrote it" : "copy it again");
  }
  if (!config_hash.empty() && c.state.config_hash != config_hash)
    raise(KINORA_ERROR_INVALID,
          "{}: the checkpoint is of another configuration ({} there, {} now); restore the run file's model "
          "and data options, or choose another output folder",
          folder.string(), c.state.config_hash, config_hash);
  const auto read = [&](const std::string& stem) {
    const auto file = Safetensors::open(folder / (stem + std::string(kTensors)));
    if (!file)
      raise(file.failure().code, "{}; or remove {} to continue from the checkpoint before",
            file.failure().message, folder.string());
    return tensors_of(*file);
  };
  const auto stems = stems_in(folder);
  c.weights = read("weights");
  if (stems.count("optimizer")) c.optimizer = read("optimizer");
  if (stems.count("more")) c.more = read("more");
  for (const auto& stem : stems)
    if (stem.starts_with(kEma)) c.ema[stem.substr(kEma.size())] = read(stem);
  return c;
}

void prune_checkpoints(const fs::path& root, int64_t keep, int64_t keep_every) {
  or_throw(may_publish(root));
  const auto all = complete(root);
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto name = it->path().filename().string();
    const auto step = damaged_step_of(name);
    const bool is_replaced = step && !all.empty() && all.back().first >= *step;
    if (is_replaced || (name.starts_with(".step-") && is_abandoned(name)))
      fs::remove_all(it->path(), ignored);
  }
  const auto excess = keep > 0 ? static_cast<int64_t>(all.size()) - keep : 0;
  for (int64_t i = 0; i < excess; ++i) {
    // Renamed first: a checkpoint that is half removed must not look complete.
    const auto& [step, path] = all[static_cast<size_t>(i)];
    if (keep_every > 0 && step % keep_every == 0) continue;
    const auto hidden = temporary_name(path);
    fs::rename(path, hidden, error);
    if (!error) fs::remove_all(hidden, error);
  }
}

std::string decay_name(double decay) { return fmt::format("{}", decay); }

Find taking_from(NamedTensors& from) {
  return [&from](const std::string& name) {
    auto node = from.extract(name);
    return node.empty() ? at::Tensor() : std::move(node.mapped());
  };
}

NamedTensors taken(NamedTensors& from, const std::string& prefix) {
  NamedTensors out;
  for (auto it = from.begin(); it != from.end();)
    if (it->first.starts_with(prefix)) {
      out.emplace(it->first.substr(prefix.size()), std::move(it->second));
      it = from.erase(it);
    } else {
      ++it;
    }
  return out;
}

}  // namespace kinora::core
