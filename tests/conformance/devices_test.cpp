// No stage touches a GPU when an instance is made or asked for its resources of a device that is named (create() of
// abi/stage.h). Who reaches one opens a library for it first: all code of this process does so by dlopen() below.
#include <algorithm>
#include <dlfcn.h>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/io.hpp"
#include "core/runtime/call.hpp"
#include "tests/conformance/stages.hpp"

namespace kinora {
namespace {

using core::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::mutex g_mutex;
std::vector<std::string> g_opened;  // libraries for GPUs, since the last look

void note(const std::string& library) {
  const std::lock_guard lock(g_mutex);
  for (const char* word : {"cuda", "nvidia", "nvcuvid"})
    if (library.find(word) != library.npos) return g_opened.push_back(library);
}

std::vector<std::string> opened() {
  const std::lock_guard lock(g_mutex);
  return std::exchange(g_opened, {});
}

// The options that let a stage use a GPU.
json of_gpu(const core::ComponentSpec& stage) {
  json out = json::object();
  for (const auto& option : stage.options) {
    if (option.name == "device") out[option.name] = "cuda:1";
    for (const char* choice : {"nvdec", "h264_nvenc"})
      if (std::ranges::find(option.choices, choice) != option.choices.end()) out[option.name] = choice;
  }
  return out;
}

TEST(Conformance, NoStageTouchesADeviceBeforeItIsStarted) {
  core::Io io(test::plugins());
  core::serve_io(&io);
  const test::Folder folder;
  size_t with_gpu = 0;
  for (const auto& id : test::plugins().ids("stage")) {
    const json gpu = of_gpu(*core::or_throw(test::plugins().find(id)));
    json options = test::required(id, folder);
    options.update(gpu);
    core::or_throw(test::plugins().open(id));
    opened();
    const test::Instance<kinora_stage> stage(id, options);
    kinora_resources needs{sizeof(kinora_resources)};
    check(stage->resources(stage.self(), &needs));
    EXPECT_THAT(opened(), IsEmpty()) << id << options;
    with_gpu += gpu.empty() ? 0 : 1;
  }
  EXPECT_GE(with_gpu, 10U);
  core::serve_io(nullptr);
}

// A model's device is the engine's, and where the engine has reserved none no GPU is looked for.
TEST(Conformance, StagesWithAModelLookForTheDeviceOfTheEngineWhenTheyAreStarted) {
  const test::Folder folder;
  for (const std::string id : {"stage/embed.model", "stage/filter.model"})
    for (const bool has_gpu : {false, true}) {
      const test::Instance<kinora_stage> stage(id, test::required(id, folder));  // device = "auto"
      core::Call call;
      kinora_run run = core::run_of(call);
      if (has_gpu) run.device_type = KINORA_DL_CUDA;
      opened();
      EXPECT_EQ(stage->start(stage.self(), &run), KINORA_OK) << id << test::last_error();
      if (has_gpu)
        EXPECT_THAT(opened(), Contains(HasSubstr("libtorch_cuda.so"))) << id;
      else
        EXPECT_THAT(opened(), IsEmpty()) << id;
    }
}

}  // namespace
}  // namespace kinora

extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int mode) noexcept {
  static const auto next = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  if (file) kinora::note(file);
  return next(file, mode);
}
