// Calls that wait for an S3 server end when the run is asked to stop.
#include <gtest/gtest.h>

#include "plugins/storage/ranged/silent_server_testing.hpp"
#include "plugins/storage/s3/s3_storage.hpp"

namespace kinora::s3 {
namespace {

TEST(S3Interrupt, EndsEveryCallThatWaits) {
  ranged::SilentServer server;
  S3Storage::Options options;
  options.endpoint = "http://" + server.address;
  options.anonymous = true;
  options.timeout = 5;
  options.retries = 0;
  S3Storage storage(options);
  const auto reader = storage.open("bucket/a.tar");
  ASSERT_EQ(reader->size(), static_cast<uint64_t>(ranged::SilentServer::kSize));
  const auto writer = storage.begin("bucket/new");
  writer->append("some text", 9);
  char bytes[16];
  ranged::expect_interrupted(
      storage, server,
      {{"read", [&] { reader->read(1'000'000, bytes, sizeof bytes); }},
       {"open", [&] { storage.open("bucket/a.tar"); }},
       {"list", [&] { storage.list("bucket/folder", [](const kinora_entry&) { return KINORA_OK; }); }},
       {"commit", [&] { writer->commit(); }},
       {"remove", [&] { storage.remove("bucket/a.tar"); }}});
}

}  // namespace
}  // namespace kinora::s3
