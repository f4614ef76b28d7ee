#include "plugins/engines/common/calling.hpp"

namespace kinora::engines {

Calling::Calling(Task& task) : task_(task) {
  task_.room = [this](bool granted) {
    const std::lock_guard lock(mutex_);
    granted_ = granted;
    answered_.notify_one();
  };
}

void Calling::emit(Sample sample) {
  if (task_.emit(std::move(sample))) return;
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return granted_.has_value(); });
  const bool granted = *granted_;
  granted_.reset();
  if (!granted) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
}

kinora_emit Calling::table() {
  static const auto of = [](void* self) -> Calling& { return *static_cast<Calling*>(self); };
  static const auto task_of = [](void* self) -> Task& { return of(self).task_; };
  return {sizeof(kinora_emit),
          0,
          this,
          [](void* self, kinora_sample* s) { return guard([&] { of(self).emit(Sample::adopt(s)); }); },
          [](void* self, kinora_sample* s, const char* rule, double score) {
            return guard([&] { task_of(self).drop(Sample::adopt(s), rule, score); });
          },
          [](void* self) { return guard([&] { task_of(self).hold(); }); },
          [](void* self, kinora_str key) { return guard([&] { task_of(self).stored(view(key)); }); },
          [](void* self, kinora_sample* s, const char* reason) {
            return guard([&] { task_of(self).fail(Sample::adopt(s), reason); });
          },
          [](void* self, const kinora_str* keys, uint64_t n) {
            return guard([&] { task_of(self).made_of({keys, n}); });
          }};
}

}  // namespace kinora::engines
