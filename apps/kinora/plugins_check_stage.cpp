// Checks of stages: what they do with samples, and what they leave behind.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "apps/kinora/plugins_check.hpp"
#include "apps/kinora/trial_samples.hpp"
#include "apps/kinora/watching_host.hpp"
#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora {
namespace stage_checks_of {
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

// The text without the folder of one instance, which differs from that of another.
std::string without(std::string text, const std::string& folder) {
  for (size_t at = 0; (at = text.find(folder, at)) != text.npos;) text.replace(at, folder.size(), "OUT");
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

// The engine's side of one instance: counts the outcomes of its samples.
class Books {
 public:
  // out: the folder for files of this instance.
  Books(const core::ComponentSpec& spec, std::string out) : spec_(spec), out_(std::move(out)) {
    emit_ = {sizeof emit_,
             0,
             this,
             [](void* self, kinora_sample* s) { return of(self).take(s, "emitted with "); },
             [](void* self, kinora_sample* s, const char* rule, double score) {
               return of(self).take(s, fmt::format("dropped by {} at {}, ", rule ? rule : "", score));
             },
             [](void* self) { return of(self).hold(); },
             [](void* self, kinora_str key) { return of(self).stored(std::string(view(key))); },
             [](void* self, kinora_sample* s, const char* reason) {
               return of(self).take(s, std::string("failed: ") + (reason ? reason : "") + ", ");
             },
             [](void* self, const kinora_str* keys, uint64_t n) { return of(self).made_of(keys, n); }};
    run_.struct_size = sizeof run_;
    run_.device_type = KINORA_DL_CPU;
    run_.n_threads = 1;
    run_.out = str(out_);
    run_.cancelled = [](void*) { return KINORA_OK; };
    run_.progress = [](void*, int64_t, int64_t, kinora_tensor) { return KINORA_OK; };
  }
  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;

  const kinora_emit* emit() const { return &emit_; }
  const kinora_run* run() const { return &run_; }
  void begin(std::vector<std::string> keys) { current_ = std::move(keys); }
  // After a call: current inputs without an outcome are consumed, or failed.
  void over(const std::string& error) {
    for (const auto& key : current_)
      if (!outcomes.count(key) && !held.count(key)) {
        outcomes[key] = error.empty() ? "consumed" : "failed: " + without(error, out_);
        n_errors += error.empty() ? 0 : 1;
      }
    current_.clear();
  }

  std::map<std::string, std::string> outcomes;
  std::set<std::string> held;
  bool fails_emit = false;
  std::string repeated;  // the first sample that ended twice, and how
  int n_errors = 0;

 private:
  static Books& of(void* self) { return *static_cast<Books*>(self); }

  int32_t take(kinora_sample* s, const std::string& how) {
    const std::string key(view(samples_api().key(s)));
    end(key, how + contents(s, spec_, out_));
    samples_api().release(s);
    return fails_emit ? set_error(KINORA_ERROR_CANCELLED, "the check ends the run here") : KINORA_OK;
  }
  void end(const std::string& key, const std::string& how) {
    held.erase(key);
    const auto [at, is_new] = outcomes.emplace(key, how);
    if (!is_new && repeated.empty())
      repeated = "'" + key + "': " + at->second.substr(0, at->second.find(' ')) + ", then " +
                 how.substr(0, how.find(' '));
  }
  int32_t hold() {
    if (current_.size() != 1) return set_error(KINORA_ERROR_INVALID, "a batch cannot be held");
    held.insert(current_[0]);
    return KINORA_OK;
  }
  int32_t stored(const std::string& key) {
    if (!held.count(key)) return set_error(KINORA_ERROR_NOT_FOUND, ("'" + key + "' is not held").c_str());
    end(key, "stored");
    return KINORA_OK;
  }
  int32_t made_of(const kinora_str* keys, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const std::string key(view(keys[i]));
      if (!held.count(key) && std::find(current_.begin(), current_.end(), key) == current_.end())
        return set_error(KINORA_ERROR_NOT_FOUND, ("'" + key + "' is neither given nor held").c_str());
    }
    return KINORA_OK;
  }

  const core::ComponentSpec& spec_;
  const std::string out_;
  kinora_emit emit_{};
  kinora_run run_{};
  std::vector<std::string> current_;
};

// The error message of a call, "" for KINORA_OK. Throws Error if the answer breaks a rule of the ABI.
template <class Call>
std::string answer(const std::string& what, Call call) {
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  int32_t status = KINORA_OK;
  try {
    status = call();
  } catch (...) {
    throw Error(KINORA_ERROR_FAILED, "an exception left " + what + "; catch it and return a status");
  }
  if (status == KINORA_OK) return "";
  if (status > 0 || status < KINORA_ERROR_REFUSED)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("{} returned {}, which is no status of a stage; return KINORA_OK "
                            "or an error of kinora/abi/base.h",
                            what, status));
  const std::string text(view(watching_host().last_error(&watching_host())));
  if (text.empty())
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("{} returned {} without a message; call host->set_error() first", what, status));
  return text;
}

// An instance and its books.
class Stage {
 public:
  Stage(const PluginTrial& t, const core::Options& options)
      : api_(t.table<kinora_stage>()),
        books(t.spec, t.folder + "/" + std::to_string(++made_)),
        self_(api_.create(&watching_host(), options.abi())) {
    if (!self_)
      throw Skipped{"create(): " + std::string(view(watching_host().last_error(&watching_host()))) +
                    "; give its options with --set NAME=VALUE"};
    if (KINORA_HAS(&api_, start) && api_.start)
      if (const auto why = answer("start()", [&] { return api_.start(self_, books.run()); }); !why.empty()) {
        api_.destroy(self_);
        throw Skipped{"start(): " + why + "; give its options with --set NAME=VALUE"};
      }
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { api_.destroy(self_); }

  uint32_t batch() {
    return KINORA_HAS(&api_, process_batch) && api_.process_batch ? std::max(resources().batch, 1u) : 1;
  }
  uint32_t ordered() { return resources().ordered; }
  // Its error, "" for none.
  std::string process(const TrialSample& given, const std::string& what) {
    kinora_sample* s = sample_of(given);
    books.begin({given.key});
    const std::string why = answer(what, [&] { return api_.process(self_, s, books.emit(), books.run()); });
    books.over(why);
    samples_api().release(s);
    return why;
  }
  void process_batch(const std::vector<TrialSample>& given) {
    std::vector<kinora_sample*> in;
    std::vector<std::string> keys;
    for (const auto& one : given) in.push_back(sample_of(one)), keys.push_back(one.key);
    books.begin(keys);
    books.over(answer("process_batch()", [&] {
      return api_.process_batch(self_, in.data(), static_cast<uint32_t>(in.size()), books.emit(),
                                books.run());
    }));
    for (auto* s : in) samples_api().release(s);
  }
  std::string finish() {
    books.begin({});
    return KINORA_HAS(&api_, finish) && api_.finish
               ? answer("finish()", [&] { return api_.finish(self_, books.emit(), books.run()); })
               : "";
  }

 private:
  kinora_resources resources() {
    kinora_resources r{};
    r.struct_size = sizeof r;
    answer("resources()", [&] { return api_.resources(self_, &r); });
    return r;
  }

  const kinora_stage& api_;

 public:
  Books books;

 private:
  void* self_;
  static inline std::atomic<int> made_ = 0;
};

constexpr size_t kSamples = 12;

// The outcomes of the usual samples. Throws Skipped if the stage can work on none of them.
std::map<std::string, std::string> outcomes_of(const PluginTrial& t, const core::Options& options) {
  Stage stage(t, options);
  std::string error;
  for (const auto& s : usual_samples(t, kSamples)) error = stage.process(s, "process()");
  stage.finish();
  if (stage.books.n_errors == static_cast<int>(kSamples))
    throw Skipped{"process() answers every sample with: " + error + "; give a video with --input FILE"};
  return stage.books.outcomes;
}

std::string check_samples(PluginTrial& t) {
  const core::Options options = t.options();
  for (const auto& s : hostile_samples(t)) {
    t.now("process() of a sample with " + s.what);
    Stage stage(t, options);
    stage.process(s, "process() of a sample with " + s.what);
    t.now("finish() after a sample with " + s.what);
    stage.finish();
  }
  return "";
}

std::string check_outcomes(PluginTrial& t) {
  const core::Options options = t.options();
  outcomes_of(t, options);  // Skipped if there is nothing to see
  Stage stage(t, options);
  const auto given = usual_samples(t, kSamples);
  const size_t batch = std::min<size_t>(stage.batch(), kSamples / 2);
  for (size_t at = 0; at < given.size(); at += std::max<size_t>(batch, 1))
    if (batch > 1 && at + batch <= given.size())
      stage.process_batch(
          {given.begin() + static_cast<ptrdiff_t>(at), given.begin() + static_cast<ptrdiff_t>(at + batch)});
    else
      for (size_t i = at; i < std::min(at + batch, given.size()); ++i) stage.process(given[i], "process()");
  const std::string why = stage.finish();
  if (!stage.books.repeated.empty())
    throw Error(KINORA_ERROR_FAILED, "two outcomes of sample " + stage.books.repeated +
                                         "; end each sample once, and give new samples keys of their own");
  if (!stage.books.held.empty() && why.empty())
    throw Error(KINORA_ERROR_FAILED,
                "sample '" + *stage.books.held.begin() +
                    "' was held and is lost: finish() neither emitted, dropped, failed nor "
                    "stored it");
  return fmt::format("{} samples in, {} outcomes", kSamples, stage.books.outcomes.size());
}

// "'clip-0003': emitted with ..., then ..." of the first that differs; "" if none does.
std::string difference_of(const std::map<std::string, std::string>& a,
                          const std::map<std::string, std::string>& b) {
  for (const auto* from : {&a, &b})
    for (const auto& [key, how] : *from) {
      const auto& other = from == &a ? b : a;
      const auto at = other.find(key);
      if (at == other.end() || at->second != how)
        return "'" + key + "': " + how.substr(0, 300) + " and " +
               (at == other.end() ? "nothing" : at->second.substr(0, 300));
    }
  return "";
}

std::string check_same_stage(PluginTrial& t) {
  const core::Options options = t.options();
  const auto once = outcomes_of(t, options);
  if (const auto differs = difference_of(once, outcomes_of(t, options)); !differs.empty())
    throw Error(KINORA_ERROR_FAILED, "two instances with the same options and samples differ in " + differs +
                                         "; draw random numbers from kinora_run.seed and the key only");
  return "";
}

std::string check_leaks(PluginTrial& t) {
  const core::Options options = t.options();
  for (const bool fails_emit : {false, true}) {
    Stage stage(t, options);
    stage.books.fails_emit = fails_emit;
    for (const auto& s : usual_samples(t, kSamples)) stage.process(s, "process()");
    stage.finish();
  }
  const int64_t left = watch().samples;
  if (left != 0)
    throw Error(KINORA_ERROR_FAILED,
                left > 0 ? fmt::format("{} references to samples were taken and never released", left)
                         : fmt::format("{} samples were released once too often", -left));
  return "";
}

std::string check_threads(PluginTrial& t) {
  const core::Options options = t.options();
  if (Stage(t, options).ordered() != 0)
    throw Skipped{"the engine makes one instance of it (resources.ordered)"};
  const auto alone = outcomes_of(t, options);
  if (!difference_of(alone, outcomes_of(t, options)).empty())
    throw Skipped{"its results differ without threads too"};
  std::vector<std::thread> threads;
  std::mutex lock;
  std::string wrong;
  t.now("create(), process() and destroy() of four instances on four threads");
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      std::string why;
      try {
        for (int k = 0; k < 3 && why.empty(); ++k) why = difference_of(alone, outcomes_of(t, options));
      } catch (const Skipped& s) {
        why = s.why;
      } catch (const std::exception& e) {
        why = e.what();
      }
      const std::lock_guard held(lock);
      if (wrong.empty()) wrong = why;
    });
  for (auto& one : threads) one.join();
  if (!wrong.empty())
    throw Error(KINORA_ERROR_FAILED, "four instances on four threads differ from one: " + wrong +
                                         "; instances share nothing (abi/stage.h)");
  return "";
}

std::string check_resources(PluginTrial& t) {
  const core::Options options = t.options();
  const auto& api = t.table<kinora_stage>();
  void* self = api.create(&watching_host(), options.abi());
  if (!self) throw Skipped{"create(): " + std::string(view(watching_host().last_error(&watching_host())))};
  for (const uint32_t room : {16u, static_cast<uint32_t>(sizeof(kinora_resources)), 96u}) {
    alignas(8) unsigned char space[128];
    std::fill(std::begin(space), std::end(space), 0xA5);
    std::memcpy(space, &room, sizeof room);
    auto* out = reinterpret_cast<kinora_resources*>(space);
    t.now(fmt::format("resources() with room for {} bytes", room));
    answer("resources()", [&] { return api.resources(self, out); });
    if (std::any_of(space + room, std::end(space), [](unsigned char c) { return c != 0xA5; }))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("resources() writes behind a kinora_resources of {} bytes; copy it by "
                              "KINORA_FILL(out, &one)",
                              room));
    if (out->struct_size > room)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("resources() sets struct_size to {} where the room is {}; use "
                              "KINORA_FILL(out, &one)",
                              out->struct_size, room));
  }
  api.destroy(self);
  return "";
}

constexpr Check kChecks[] = {
    {"resources", "stage", "resources() keeps to the room of an older and a newer host's struct", false,
     nullptr, check_resources},
    {"samples", "stage",
     "hostile samples get an answer: missing fields, 5 MiB of bytes, NaN, tensors that are empty, strided, "
     "zero-dimensional, bf16",
     false, nullptr, check_samples},
    {"outcomes", "stage", "no sample is lost or has two outcomes", false, nullptr, check_outcomes},
    {"same-outcomes", "stage", "the same samples have the same outcomes, to the bit", false, nullptr,
     check_same_stage},
    {"sample-leaks", "stage", "every reference to a sample is released", false, nullptr, check_leaks},
    {"threads", "stage", "four instances on four threads do what one does", false, nullptr, check_threads}};

}  // namespace
}  // namespace stage_checks_of

std::span<const Check> stage_checks() { return stage_checks_of::kChecks; }

}  // namespace kinora
