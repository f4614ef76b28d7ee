// Calls that wait for a web server end when the run is asked to stop.
#include <gtest/gtest.h>

#include "plugins/storage/http/http_storage.hpp"
#include "plugins/storage/ranged/silent_server_testing.hpp"

namespace kinora::web {
namespace {

TEST(WebInterrupt, EndsEveryCallThatWaits) {
  ranged::SilentServer server;
  HttpStorage::Options options;
  options.timeout = 5;
  options.retries = 0;
  HttpStorage storage(options);
  const std::string path = server.address + "/data/a.tar";
  const auto reader = storage.open(path);
  ASSERT_EQ(reader->size(), static_cast<uint64_t>(ranged::SilentServer::kSize));
  char bytes[16];
  ranged::expect_interrupted(
      storage, server,
      {{"read", [&] { reader->read(1'000'000, bytes, sizeof bytes); }},
       {"open", [&] { storage.open(path); }},
       {"list", [&] { storage.list(path, [](const kinora_entry&) { return KINORA_OK; }); }}});
}

}  // namespace
}  // namespace kinora::web
