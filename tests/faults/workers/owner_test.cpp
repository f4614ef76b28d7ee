// Messages from the owner of a worker to the worker.
#include <string>

#include <gtest/gtest.h>

#include "host/workers/worker.hpp"
#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

// The result of `emit`, and the emitted sample.
struct Sink {
  std::string error, key;
  static int32_t emit(void* self, kinora_sample* sample) {
    auto& sink = *static_cast<Sink*>(self);
    sink.key = Sample::adopt(sample).key();
    if (sink.error.empty()) return KINORA_OK;
    host()->set_error(host(), KINORA_ERROR_IO, sink.error.c_str());
    return KINORA_ERROR_IO;
  }
};

TEST(Workers, AMessageThatIsTooLongForThemIsCutAndTheNextCallIsAnswered) {
  runtime();
  const auto& api =
      *static_cast<const kinora_workers_api*>(host()->get_interface(host(), KINORA_INTERFACE_WORKERS, 0));
  const kinora_worker_spec spec{sizeof spec, 0, "fault", "stage/faulty", R"({"how":"none"})", 60, 0, 0, 0};
  kinora_worker* worker = nullptr;
  check(api.start(&spec, &worker));
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  for (const size_t length : {size_t{0}, size_t{100'000}, size_t{0}}) {
    Sink sink{std::string(length, 'x'), ""};
    kinora_emit emit{};
    emit.struct_size = sizeof emit;
    emit.self = &sink;
    emit.emit = Sink::emit;
    const std::string key = "s" + std::to_string(length);
    Sample in(key);
    EXPECT_EQ(api.process(worker, in.get(), &emit, &run), length == 0 ? KINORA_OK : KINORA_ERROR_IO)
        << view(host()->last_error(host())).substr(0, 200);
    EXPECT_EQ(sink.key, key);
    EXPECT_EQ(api.ended(worker), 0);
  }
  api.stop(worker);
}

}  // namespace
}  // namespace kinora::core
