#include "apps/serve/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::serve {
namespace metrics_test {

using testing::HasSubstr;

TEST(Metrics, AreInPrometheusForm) {
  Metrics all;
  EXPECT_THAT(all.text(), HasSubstr("# TYPE kinora_serve_cancel_seconds histogram\n"
                                    "kinora_serve_cancel_seconds_bucket{le=\"0.005\"} 0\n"));
  for (int i = 0; i < 3; ++i) all.count("requests_total", R"(route="/health",status="200")");
  all.count("disconnects_total");
  for (const double seconds : {0.02, 0.05, 3., 1000.}) all.observe("queue_seconds", seconds);
  const std::string text = all.text();
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_serve_requests_total counter\n"
                              "kinora_serve_requests_total{route=\"/health\",status=\"200\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_serve_disconnects_total counter\n"
                              "kinora_serve_disconnects_total 1\n"));
  for (const auto& [bound, count] :
       {std::pair{"0.01", 0}, {"0.025", 1}, {"0.05", 2}, {"2.5", 2}, {"5", 3}, {"600", 3}, {"+Inf", 4}})
    EXPECT_THAT(text, HasSubstr(std::string("kinora_serve_queue_seconds_bucket{le=\"") + bound + "\"} " +
                                std::to_string(count) + "\n"));
  EXPECT_THAT(text,
              HasSubstr("kinora_serve_queue_seconds_sum 1003.07\nkinora_serve_queue_seconds_count 4\n"));
}

TEST(Metrics, EscapeWhatALabelMayNotHave) {
  EXPECT_EQ(Metrics::label("model", "a \"b\" \\ \n"), R"(model="a \"b\" \\ \n")");
}

}  // namespace metrics_test
}  // namespace kinora::serve
