// A stage in C++, see abi/stage.h.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kinora/abi/stage.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Receives a stage's results. Valid only during the call that receives it.
class Emit {
 public:
  explicit Emit(const kinora_emit* e) : e_(e) {}
  void operator()(Sample s) const { check(e_->emit(e_->self, s.release())); }
  // Filters the sample by `rule` because of `score`.
  void drop(Sample s, const char* rule, double score) const {
    check(e_->drop(e_->self, s.release(), rule, score));
  }
  // Fails the sample; other samples of this input are unaffected.
  void fail(Sample s, const std::string& reason) const {
    if (!e_->fail) throw Error(KINORA_ERROR_DATA, reason);
    check(e_->fail(e_->self, s.release(), reason.c_str()));
  }
  // Inside process(): holds the input until a later emit or drop of its key, or stored(). An engine that does not
  // hold cannot run a stage that must: the run ends.
  void hold() const {
    if (!e_->hold)
      throw Error(KINORA_ERROR_REFUSED,
                  "this engine holds no inputs, which this stage needs; choose another engine");
    check(e_->hold(e_->self));
  }
  // Names the parents of the next new sample: keys of the current input and of held inputs.
  void made_of(std::span<const std::string_view> keys) const {
    if (!e_->made_of) return;
    std::vector<kinora_str> names;
    for (const auto key : keys) names.push_back(str(key));
    check(e_->made_of(e_->self, names.data(), names.size()));
  }
  // The held input of this key is safe where the stage put it.
  void stored(std::string_view key) const {
    if (e_->stored) check(e_->stored(e_->self, str(key)));
  }

 private:
  const kinora_emit* e_;
};

// For a host or an engine that reads the resources() of the component `id`: an unknown value is refused by name
// (abi/base.h, rule 11). Throws Error(KINORA_ERROR_UNSUPPORTED).
inline void check_known(const kinora_resources& of, std::string_view id) {
  const auto must_know = [&](const char* member, uint32_t found, uint32_t last_known) {
    if (found > last_known)
      throw Error(KINORA_ERROR_UNSUPPORTED, std::string(id) + ": " + member + " of its resources() is " +
                                                std::to_string(found) +
                                                ", which this Kinora does not know; set it to 0 to " +
                                                std::to_string(last_known) + ", or use a newer Kinora");
  };
  must_know("ordered", of.ordered, 2);
  must_know("isolated", of.isolated, 1);
}

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&).
class Stage {
 public:
  static constexpr const char* kind = "stage";
  static constexpr const char* interface_id = KINORA_INTERFACE_STAGE;
  virtual ~Stage() = default;
  // Once, before any other call but resources(), where the instance runs: load weights here, onto run's
  // device. The constructor is cheap, since the host also makes instances only to ask for their resources. An
  // exception ends the run.
  virtual void start(const Run&) {}
  // One sample in, any number out. An exception fails this sample only.
  virtual void process(Sample in, const Emit& emit, const Run& run) = 0;
  // Several samples at once, at most resources().batch of them ("Batches" in abi/stage.h). An exception
  // repeats those that have not ended alone, by process().
  virtual void process_batch(std::span<const Sample>, const Emit&, const Run&) {
    throw Error(KINORA_ERROR_UNSUPPORTED, "resources().batch is for a stage with process_batch()");
  }
  // No more input: end every held input.
  virtual void finish(const Emit&, const Run&) {}
  virtual kinora_resources resources() const {
    return {sizeof(kinora_resources), 0, 1.0, 0.0, 0, 0, 0, 0, 0};
  }

  // Whether T leaves finish() as it is here. Then its table has none, and hosts know that samples leave nothing in it.
  template <class T>
  static constexpr bool has_nothing_to_finish = requires {
    requires std::is_same_v<decltype(&T::finish), void (Stage::*)(const Emit&, const Run&)>;
  };
  // T made it: its own functions are called directly.
  template <class T>
  static T& of(void* self) {
    return static_cast<T&>(*static_cast<Stage*>(self));
  }
  template <class T>
  static const void* api() {
    static const kinora_stage table{
        sizeof(kinora_stage),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Stage* made = nullptr;
          guard([&] { made = new T(described<T>().read(o)); });
          return made;
        },
        [](void* self) { delete static_cast<Stage*>(self); },
        [](void* self, kinora_resources* out) {
          return guard([&] {
            const kinora_resources all = of<T>(self).T::resources();
            KINORA_FILL(out, &all);
          });
        },
        [](void* self, kinora_sample* in, const kinora_emit* e, const kinora_run* r) {
          return guard([&] { of<T>(self).T::process(Sample::borrow(in), Emit(e), Run(r)); });
        },
        has_nothing_to_finish<T>
            ? nullptr
            : +[](void* self, const kinora_emit* e,
                  const kinora_run* r) { return guard([&] { of<T>(self).T::finish(Emit(e), Run(r)); }); },
        [](void* self, kinora_sample* const* in, uint32_t n, const kinora_emit* e, const kinora_run* r) {
          return guard([&] {
            std::vector<Sample> samples;
            for (uint32_t i = 0; i < n; ++i) samples.push_back(Sample::borrow(in[i]));
            of<T>(self).T::process_batch(samples, Emit(e), Run(r));
          });
        },
        [](void* self, const kinora_run* r) { return guard([&] { of<T>(self).T::start(Run(r)); }); }};
    return &table;
  }
};

}  // namespace kinora

KINORA_SDK_END
