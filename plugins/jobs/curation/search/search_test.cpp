#include "plugins/jobs/curation/search/search.hpp"

#include <gmock/gmock.h>

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

TEST(Search, AScoreBelowTheLimitIsShownBelowIt) {
  Embedded captions;
  captions.encoder = {{"text", "model/minilm"}};
  for (const auto& [score, text] : {std::pair{0.12, "0.12,"},
                                    {0.297, "0.297,"},
                                    {0.294, "0.29,"},
                                    {0.29999, "0.29999,"},
                                    {0.2999999996, "0.2999999996,"},
                                    {-0.004, "-0.00,"}})
    EXPECT_THAT(nothing_matches(captions, score), HasSubstr(std::string("the highest score is ") + text));
  EXPECT_EQ(nothing_matches(captions, 0.3), "");
  captions.encoder["text"] = "model/other";
  EXPECT_EQ(nothing_matches(captions, 0.1), "");
}

}  // namespace
}  // namespace kinora::core
