// How `kinora serve` ends for the clients that it is answering just then, with the model of fake_model_test.cpp.
#include <filesystem>
#include <fstream>

#include "apps/serve/serve_testing.hpp"
#include "apps/web/socket_testing.hpp"

namespace kinora::serve {
namespace serve_end_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using ServeEnd = ServeTest;

TEST_F(ServeEnd, ADownloadAndAViewerGetWhatIsThere) {
  constexpr size_t kBytes = 8 << 20;  // more than the systems' buffers
  const std::string id = make(kJson, R"({"prompt": "x"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  fs::resize_file(folder_of(id) / "video.mp4", kBytes);
  web::Client download(port_), viewer(port_);
  download.send(request("GET /v1/videos/" + id + "/content", kToken));
  viewer.send(request("GET /v1/videos/" + id + "/content?live=1", kToken));
  EXPECT_THAT(download.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(viewer.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  ends_ = true;
  EXPECT_TRUE(eventually([&] { return ask("GET /health", "").empty(); })) << "it takes no more requests";
  EXPECT_EQ(download.receive().size(), kBytes);
  EXPECT_THAT(viewer.receive(), EndsWith("\r\n0\r\n\r\n"));
}

TEST_F(ServeEnd, APictureThatWaitsIsRefused) {
  web::Client waits(port_);
  waits.send(request("POST /v1/images/generations", kToken + kJson, R"({"prompt": "waits"})"));
  ASSERT_TRUE(eventually([&] { return body_of(ask("GET /v1/videos")).at("data").size() == 1; }));
  ends_ = true;
  EXPECT_THAT(waits.receive(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("\"server_ends\"")));
}

TEST_F(ServeEnd, ALiveSessionIsTold) {
  web::SocketClient viewer(port_, "/v1/realtime/video", kToken);
  viewer.text(R"({"type": "session.start", "prompt": "long"})");
  auto frame = viewer.next();
  EXPECT_THAT(frame.bytes, HasSubstr("session.queued"));
  ends_ = true;
  while (frame.kind != -1 && frame.bytes.find("server_ends") == std::string::npos) frame = viewer.next();
  ASSERT_EQ(frame.kind, web::SocketClient::kText);
  EXPECT_EQ(json::parse(frame.bytes).at("type"), "error");
  EXPECT_EQ(viewer.close_code(), 1001);
}

}  // namespace serve_end_test
}  // namespace kinora::serve
