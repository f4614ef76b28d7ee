#include "apps/validate/trial_stage.hpp"

#include <algorithm>
#include <atomic>

#include "core/sample/sample.hpp"
#include "kinora/sample.hpp"

namespace kinora {
namespace stage_trial {
namespace {

const kinora_samples_api& samples_api() {
  static const auto& api = interface<kinora_samples_api>(KINORA_INTERFACE_SAMPLES);
  return api;
}

// FNV-1a
uint64_t hash(const void* data, uint64_t size) {
  uint64_t h = 14695981039346656037u;
  for (uint64_t i = 0; i < size; ++i) h = (h ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  return h;
}

// The text without the folder of one instance, which differs from that of another; "": as it is.
std::string without(std::string text, const std::string& folder) {
  for (size_t at = 0; !folder.empty() && (at = text.find(folder, at)) != text.npos;)
    text.replace(at, folder.size(), "OUT");
  return text;
}

// Fields and declared tensors of a sample, with a hash of each. folder: the instance's, which does not count.
std::string contents(const kinora_sample* s, const core::ComponentSpec& spec, const std::string& folder) {
  std::map<std::string, std::string> parts;
  kinora_str name;
  kinora_bytes value;
  for (uint64_t i = 0; samples_api().field(s, i, &name, &value) == KINORA_OK; ++i) {
    const std::string bytes =
        without({static_cast<const char*>(value.data ? value.data : ""), value.size}, folder);
    parts[std::string(view(name))] =
        fmt::format("{} bytes {:016x}", bytes.size(), hash(bytes.data(), bytes.size()));
  }
  for (const auto* list : {&spec.inputs, &spec.outputs})
    for (const auto& t : *list) {
      const kinora_dl_tensor* found = nullptr;
      if (samples_api().get_tensor(s, t.name.c_str(), &found) != KINORA_OK) continue;
      uint64_t bytes = found->bits / 8;
      for (int32_t d = 0; d < found->ndim; ++d) bytes *= static_cast<uint64_t>(found->shape[d]);
      const auto* data = static_cast<const char*>(found->data) + found->byte_offset;
      parts[t.name] = fmt::format("{} bytes {:016x}", bytes, is_row_major(*found) ? hash(data, bytes) : 0);
    }
  std::string out;
  for (const auto& [n, text] : parts) out += n + ": " + text + "; ";
  return out;
}

// A sample with one more reference, which nobody releases: a stage that gives away one that it does not have is
// counted, and does not use freed memory.
kinora_sample* held_sample_of(const TrialSample& given) {
  kinora_sample* s = sample_of(given);
  core::samples_table().retain(s);
  return s;
}

std::atomic<int> n_made = 0;

}  // namespace
}  // namespace stage_trial

TrialBooks::TrialBooks(const core::ComponentSpec& spec, std::string out) : spec_(spec), out_(std::move(out)) {
  emit_ = {
      sizeof emit_,
      0,
      this,
      [](void* self, kinora_sample* s) { return static_cast<TrialBooks*>(self)->take(s, "emitted with "); },
      [](void* self, kinora_sample* s, const char* rule, double score) {
        return static_cast<TrialBooks*>(self)->take(
            s, fmt::format("dropped by {} at {}, ", rule ? rule : "", score));
      },
      [](void* self) { return static_cast<TrialBooks*>(self)->hold(); },
      [](void* self, kinora_str key) {
        return static_cast<TrialBooks*>(self)->stored(std::string(view(key)));
      },
      [](void* self, kinora_sample* s, const char* reason) {
        return static_cast<TrialBooks*>(self)->take(s,
                                                    std::string("failed: ") + (reason ? reason : "") + ", ");
      },
      [](void* self, const kinora_str* keys, uint64_t n) {
        return static_cast<TrialBooks*>(self)->made_of(keys, n);
      }};
  run_.struct_size = sizeof run_;
  run_.device_type = KINORA_DL_CPU;
  run_.n_threads = 1;
  run_.out = str(out_);
  run_.cancelled = [](void*) { return KINORA_OK; };
  run_.progress = [](void*, int64_t, int64_t, kinora_tensor) { return KINORA_OK; };
}

void TrialBooks::over(const std::string& error) {
  for (const auto& key : current_)
    if (!outcomes.count(key) && !held.count(key)) {
      outcomes[key] = error.empty() ? "consumed" : "failed: " + stage_trial::without(error, out_);
      n_errors += error.empty() ? 0 : 1;
    }
  current_.clear();
}

int32_t TrialBooks::take(kinora_sample* s, const std::string& how) {
  const std::string key(view(stage_trial::samples_api().key(s)));
  end(key, how + stage_trial::contents(s, spec_, out_));
  stage_trial::samples_api().release(s);
  return fails_emit ? set_error(KINORA_ERROR_CANCELLED, "the check ends the run here") : KINORA_OK;
}

void TrialBooks::end(const std::string& key, const std::string& how) {
  held.erase(key);
  const auto [at, is_new] = outcomes.emplace(key, how);
  if (!is_new && repeated.empty())
    repeated = "'" + key + "': " + at->second.substr(0, at->second.find(' ')) + ", then " +
               how.substr(0, how.find(' '));
}

int32_t TrialBooks::hold() {
  if (current_.size() != 1) return set_error(KINORA_ERROR_INVALID, "a batch cannot be held");
  held.insert(current_[0]);
  return KINORA_OK;
}

int32_t TrialBooks::stored(const std::string& key) {
  if (!held.count(key)) return set_error(KINORA_ERROR_NOT_FOUND, ("'" + key + "' is not held").c_str());
  end(key, "stored");
  return KINORA_OK;
}

int32_t TrialBooks::made_of(const kinora_str* keys, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    const std::string key(view(keys[i]));
    if (!held.count(key) && std::find(current_.begin(), current_.end(), key) == current_.end())
      return set_error(KINORA_ERROR_NOT_FOUND, ("'" + key + "' is neither given nor held").c_str());
  }
  return KINORA_OK;
}

TrialStage::TrialStage(const PluginTrial& t, const core::Options& options)
    : books(t.spec, t.folder + "/" + std::to_string(++stage_trial::n_made)),
      spec_(t.spec),
      made_(t, options) {
  if (!KINORA_HAS(&made_.api, start) || !made_.api.start) return;
  if (const auto why = answer("start()", [&] { return made_.api.start(made_.self, books.run()); });
      !why.empty())
    throw Skipped{"start(): " + why + "; give its options with --set NAME=VALUE"};
}

uint32_t TrialStage::batch() const {
  return KINORA_HAS(&made_.api, process_batch) && made_.api.process_batch ? std::max(resources().batch, 1u)
                                                                          : 1;
}

uint32_t TrialStage::ordered() const { return resources().ordered; }

std::string TrialStage::process(const TrialSample& given, const std::string& what) {
  kinora_sample *s = stage_trial::held_sample_of(given), *clone = nullptr;
  check(core::samples_table().clone(s, str(given.key), &clone));
  const auto shared = [&] { return stage_trial::contents(clone, spec_, ""); };
  const std::string before = shared();
  books.begin({given.key});
  const std::string why =
      answer(what, [&] { return made_.api.process(made_.self, s, books.emit(), books.run()); });
  books.over(why);
  if (const std::string after = shared(); after != before)
    books.changed = "before: " + before + "after: " + after;
  core::samples_table().release(clone);
  stage_trial::samples_api().release(s);
  return why;
}

void TrialStage::require_refused(const TrialSample& given) {
  kinora_sample* s = stage_trial::held_sample_of(given);
  books.begin({given.key});
  kinora::require_refused([&] { return made_.api.process(made_.self, s, books.emit(), books.run()); },
                          "process() of a run with an unknown bit of `needs`");
}

void TrialStage::process_batch(const std::vector<TrialSample>& given) {
  std::vector<kinora_sample*> in;
  std::vector<std::string> keys;
  for (const auto& one : given) {
    in.push_back(stage_trial::held_sample_of(one));
    keys.push_back(one.key);
  }
  books.begin(keys);
  books.over(answer("process_batch()", [&] {
    return made_.api.process_batch(made_.self, in.data(), static_cast<uint32_t>(in.size()), books.emit(),
                                   books.run());
  }));
  for (auto* s : in) stage_trial::samples_api().release(s);
}

std::string TrialStage::finish() {
  books.begin({});
  if (!KINORA_HAS(&made_.api, finish) || !made_.api.finish) return "";
  return answer("finish()", [&] { return made_.api.finish(made_.self, books.emit(), books.run()); });
}

kinora_resources TrialStage::resources() const {
  kinora_resources r{};
  r.struct_size = sizeof r;
  answer("resources()", [&] { return made_.api.resources(made_.self, &r); });
  return r;
}

}  // namespace kinora
