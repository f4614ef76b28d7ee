#include "core/run/stage_instance.hpp"

#include <unistd.h>

#include "core/plugin/host.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

// Default of engine/local: half of three quarters of the machine's memory.
uint64_t memory_of_a_worker() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGE_SIZE);
  return static_cast<uint64_t>(std::max(0L, pages)) * static_cast<uint64_t>(std::max(0L, size)) / 8 * 3;
}

// Removes the names of engine options from a worker's message: there is no engine here.
std::string without_options(std::string message) {
  for (const std::string_view option : {" (item_timeout)", " (item_limit)", " (item_memory)"})
    if (const size_t at = message.find(option); at != message.npos) message.erase(at, option.size());
  return message;
}

}  // namespace

StageInstance::StageInstance(Registry& registry, const std::string& id, const Options& options,
                             const Isolation& isolation)
    : isolation_(isolation) {
  const Component component = or_throw(registry.open("stage", id));
  id_ = component.spec->id;
  options_ = options.canonical();
  stage_ = &component.table<kinora_stage>();
  self_ = made(stage_->create(host(), options.abi()), id_);
  if (isolation_.is_allowed && resources().isolated != 0)
    workers_ = static_cast<const kinora_workers_api*>(host()->get_interface(host(), KINORA_WORKERS, 0));
}

StageInstance::~StageInstance() {
  if (worker_) workers_->stop(worker_);
  if (self_) stage_->destroy(self_);
}

kinora_resources StageInstance::resources() const {
  kinora_resources out{};
  out.struct_size = sizeof out;
  called(stage_->resources(self_, &out), id_);
  return out;
}

template <class Call>
void StageInstance::in_process(const std::string& of, Call call) {
  constexpr double kLimit = 43200;  // seconds per sample, as in engine/local
  const kinora_worker_spec spec{
      sizeof spec, 0, id_.c_str(), id_.c_str(), options_.c_str(), isolation_.timeout, memory_of_a_worker(),
      kLimit,      0};
  if (!worker_) called(workers_->start(&spec, &worker_), id_);
  const int32_t status = call();
  if (status == KINORA_OK || workers_->ended(worker_) == 0) return called(status, id_);
  const std::string message = without_options(from_abi(status, id_).failure().message);
  workers_->stop(std::exchange(worker_, nullptr));
  if (status == KINORA_CANCELLED) throw Error(status, message);
  throw ProcessEnded(KINORA_DATA, of + ": " + message);
}

void StageInstance::process(kinora_sample* in, const kinora_emit& emit, const kinora_run& run) {
  if (!workers_) return called(stage_->process(self_, in, &emit, &run), id_);
  in_process(id_ + ": " + std::string(Sample::borrow(in).key()),
             [&] { return workers_->process(worker_, in, &emit, &run); });
}

void StageInstance::finish(const kinora_emit& emit, const kinora_run& run) {
  if (!stage_->finish) return;
  if (!workers_) return called(stage_->finish(self_, &emit, &run), id_);
  in_process(id_, [&] { return workers_->finish(worker_, &emit, &run); });
}

}  // namespace kinora::core
