#include "kinora/plugin.hpp"

KINORA_PLUGIN(FilterBrightness, FilterBlur, FilterBlack, FilterFrozen, FilterLetterbox, FilterFlow,
              FilterText, FilterFacts)
