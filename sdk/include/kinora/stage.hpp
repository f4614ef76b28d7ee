// A stage in C++, see abi/stage.h.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "kinora/abi/stage.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"

namespace kinora {

// Where a stage's results go.
class Emit {
 public:
  explicit Emit(const kinora_emit* e) : e_(e) {}
  void operator()(Sample s) const { check(e_->emit(e_->self, s.release())); }
  // The sample ends here: filtered by `rule` because of `score`.
  void drop(Sample s, const char* rule, double score) const {
    check(e_->drop(e_->self, s.release(), rule, score));
  }
  // The sample ends here: failed. What else process() makes of its input goes on.
  void fail(Sample s, const std::string& reason) const {
    if (e_->struct_size <= offsetof(kinora_emit, fail) || !e_->fail) throw Error(KINORA_DATA, reason);
    check(e_->fail(e_->self, s.release(), reason.c_str()));
  }
  // Inside process(): the input is kept back; a later emit or drop of its key, or stored(), ends it.
  void hold() const {
    if (e_->hold) check(e_->hold(e_->self));
  }
  // The input of this key, kept back earlier, is safe where the stage put it.
  void stored(std::string_view key) const {
    if (e_->stored) check(e_->stored(e_->self, str(key)));
  }

 private:
  const kinora_emit* e_;
};

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&).
class Stage {
 public:
  static constexpr const char* kind = "stage";
  static constexpr const char* interface_id = KINORA_STAGE;
  virtual ~Stage() = default;
  // One sample in, any number out. Throwing ends this sample only.
  virtual void process(Sample in, const Emit& emit, const Run& run) = 0;
  // No more input: emit or store what was kept back.
  virtual void finish(const Emit&, const Run&) {}
  virtual kinora_resources resources() const { return {sizeof(kinora_resources), 0, 1.0, 0.0, 0}; }

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
            // Of a host that is older than this plugin there is less room.
            kinora_resources all = static_cast<Stage*>(self)->resources();
            all.struct_size = std::min<uint32_t>(sizeof all, out->struct_size);
            std::memcpy(out, &all, all.struct_size);
          });
        },
        [](void* self, kinora_sample* in, const kinora_emit* e, const kinora_run* r) {
          return guard([&] { static_cast<Stage*>(self)->process(Sample::borrow(in), Emit(e), Run(r)); });
        },
        [](void* self, const kinora_emit* e, const kinora_run* r) {
          return guard([&] { static_cast<Stage*>(self)->finish(Emit(e), Run(r)); });
        }};
    return &table;
  }
};

}  // namespace kinora
