// The toy model (qrt_toy_model.c) as an artifact.
#ifndef TESTS_UNIT_RUNTIME_QRT_TOY_ARTIFACT_H_
#define TESTS_UNIT_RUNTIME_QRT_TOY_ARTIFACT_H_

#include <string_view>

#include "tests/unit/runtime/artifact_sample.h"

namespace toy {

// Tokenizer, template (roles in <|im_start|> ... <|im_end|>, `think` where thinking is enabled), no goldens;
// three code variants, of which no machine runs the first ("future").
qrt::testing::SampleParts ToyParts();
// With another chat template.
qrt::testing::SampleParts ToyParts(std::string_view chat_template);

// Adds golden values that an engine computed. `wrong`: one of them is not what the model says.
void AddGoldens(qrt::testing::SampleParts& parts, bool wrong);

}  // namespace toy

#endif  // TESTS_UNIT_RUNTIME_QRT_TOY_ARTIFACT_H_
