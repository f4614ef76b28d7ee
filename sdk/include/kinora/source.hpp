// A source of samples in C++, see abi/source.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "kinora/abi/source.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&). To be trained
// from it also has count() and
//   Sample at(uint64_t i, const Run&) const;  // sample i of this part in the order of next(); any thread, after open()
class Source {
 public:
  static constexpr const char* kind = "source";
  static constexpr const char* interface_id = KINORA_INTERFACE_SOURCE;
  virtual ~Source() = default;
  // Before any other call. shard < shards. Succeeds once; after an exception it may be called again.
  virtual void open(std::string_view path, uint64_t shard, uint64_t shards, const Run&) = 0;
  // The next sample; nothing after the last, and again until restore(). Throws Error(KINORA_ERROR_DATA) for a
  // sample or file that it has passed over; any other exception leaves the position where it was.
  virtual std::optional<Sample> next(const Run&) = 0;
  // The position, at most KINORA_SOURCE_MOST_STATE bytes.
  virtual std::string state() = 0;
  // Throws Error(KINORA_ERROR_INVALID), and keeps the position, if the state is of other data, of another part
  // or none.
  virtual void restore(std::string_view state) = 0;
  // The number of samples of this part if it is known without reading them.
  virtual std::optional<uint64_t> count() { return std::nullopt; }

  template <class T>
  static const void* api() {
    static const kinora_source table{
        sizeof(kinora_source),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Source* made = nullptr;
          guard([&] { made = new T(described<T>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, kinora_str path, uint64_t shard, uint64_t shards, const kinora_run* run) {
          return guard([&] { of(self)->open(view(path), shard, shards, Run(run)); });
        },
        next_sample,
        [](void* self, const kinora_sink* out) {
          return guard([&] {
            const std::string bytes = of(self)->state();
            out->write(out->self, bytes.data(), bytes.size());
          });
        },
        [](void* self, kinora_bytes state) {
          return guard([&] { of(self)->restore({static_cast<const char*>(state.data), state.size}); });
        },
        [](void* self, uint64_t* out) {
          return guard([&] {
            const auto known = of(self)->count();
            if (!known) throw Error(KINORA_ERROR_UNSUPPORTED, "the number of samples is not known");
            *out = *known;
          });
        },
        sample_at<T>()};
    return &table;
  }

 private:
  static Source* of(void* self) { return static_cast<Source*>(self); }
  static int32_t next_sample(void* self, const kinora_run* run, kinora_sample** out) {
    bool ended = false;
    const int32_t status = guard([&] {
      auto sample = of(self)->next(Run(run));
      ended = !sample;
      if (sample) *out = sample->release();
    });
    return status == KINORA_OK && ended ? KINORA_SIGNAL_END : status;
  }
  // Null for a T without at().
  template <class T>
  static constexpr decltype(kinora_source::at) sample_at() {
    if constexpr (requires(const T& source, const Run& run) { source.at(uint64_t{}, run); })
      return [](void* self, uint64_t i, const kinora_run* run, kinora_sample** out) {
        return guard([&] { *out = static_cast<const T*>(of(self))->at(i, Run(run)).release(); });
      };
    else
      return nullptr;
  }
};

}  // namespace kinora

KINORA_SDK_END
