/* test_hpp.cpp - cadenza.hpp: objects that end in any order, exceptions with sentences, pieces as they come, runs that are dropped.
 *
 *     test_hpp MODEL */
#include <cadenza/cadenza.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>

static int failures;

#define CHECK(what)                                                                                        \
    do {                                                                                                   \
        if (!(what)) {                                                                                     \
            std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                                 \
            failures++;                                                                                    \
        }                                                                                                  \
    } while (0)

static const char greedy[] = "[generation]\ndo_sample = false\nmax_new_tokens = 8\n";

static std::string answers(const cadenza::result &r)
{
    return std::string(r.text(0));
}

static void generates(cadenza::runtime &rt, const cadenza::model &model)
{
    const cadenza::pipeline p = rt.parse(greedy);
    const cadenza::result by_text = rt.generate(cadenza::request(model).prompt("river (noun):").with(p));
    CHECK(by_text.rows() == 1 && by_text.ids(0).size() == 8);
    CHECK(by_text.text(0) == " a large natural stream of water (lar");
    CHECK(by_text.finish_reason(0) == "length");
    const std::vector<std::int32_t> ids = model.tokenize("river (noun):");
    const cadenza::result by_ids = rt.generate(cadenza::request(model).ids(ids).with(p));
    CHECK(answers(by_ids) == answers(by_text));
    CHECK(by_ids.sequence(0).size() == ids.size() + 8);
    CHECK(std::equal(ids.begin(), ids.end(), by_ids.sequence(0).begin()));
    CHECK(model.detokenize(ids).find("river") != std::string::npos);
    CHECK(by_text.json().find("\"finish_reason\"") != std::string_view::npos);
    CHECK(rt.stats().n_finished == 2);
}

static void records(cadenza::runtime &rt, const cadenza::model &model)
{
    cadenza::pipeline p = rt.parse(greedy);
    p.set("output_scores", "true").set("max_new_tokens", "3");
    CHECK(p.explain(&model).find("max_new_tokens") != std::string::npos);
    const cadenza::result r = rt.generate(cadenza::request(model).prompt("river (noun):").with(p));
    std::uint32_t steps = 0;
    r.each_tensor([&](const cdz_result_tensor &t) {
        if (std::strncmp(t.name, "scores/", 7) != 0) return;
        const auto *row = static_cast<const float *>(t.data);
        const std::int32_t best = r.ids(0)[steps++];
        for (std::uint64_t i = 0; i < t.shape[1]; i++) CHECK(row[i] <= row[best]);
    });
    CHECK(steps == 3);
    const std::vector<float> scores = model.score(model.tokenize("river (noun): a"));
    CHECK(std::isnan(scores.front()) && scores.back() < 0);
}

static void streams(cadenza::runtime &rt, const cadenza::model &model)
{
    const cadenza::pipeline p = rt.parse(greedy);
    std::string heard;
    std::size_t n = 0;
    cadenza::request order(model);
    order.prompt("river (noun):").with(p).on_piece([&](const cadenza::piece &some) {
        heard += some.text;
        n += some.ids.size();
    });
    const cadenza::result r = rt.generate(order);
    CHECK(heard == answers(r) && n == 8);

    order.on_piece([](const cadenza::piece &) { throw std::domain_error("mine"); });
    std::string thrown;
    try {
        rt.generate(order);
    } catch (const std::domain_error &e) {
        thrown = e.what();
    }
    CHECK(thrown == "mine");
    CHECK(answers(rt.generate(cadenza::request(model).prompt("river (noun):").with(p))) == heard);
}

static void drops(cadenza::runtime &rt, const cadenza::model &model)
{
    const cadenza::pipeline p = rt.parse("[generation]\ndo_sample = false\nmax_new_tokens = 400\neos_token_id = none\n");
    {
        cadenza::run one = rt.submit(cadenza::request(model).prompt("river").with(p));
        cadenza::run two = std::move(one);
        CHECK(one.id() == 0 && two.id() != 0);
        CHECK(!two.wait_for(0));
    }
    cadenza::run third = rt.submit(cadenza::request(model).prompt("river").with(p));
    third = rt.submit(cadenza::request(model).prompt("dog").with(p)); /* the first one is cancelled */
    third.pause();
    third.cancel();
    cdz_status code = CDZ_OK;
    try {
        third.wait();
    } catch (const cadenza::error &e) {
        code = e.code();
    }
    CHECK(code == CDZ_E_CANCELLED);
    CHECK(rt.stats().n_running == 0);
    cadenza::run paused = rt.submit(cadenza::request(model).prompt("river").with(p));
    paused.pause();
    CHECK(!paused.wait_for(0.05));
    paused.resume();
    CHECK(!paused.wait().text(0).empty());
}

static void refuses(cadenza::runtime &rt, const cadenza::model &model)
{
    struct refusal {
        cdz_status code;
        const char *sentence;
        std::function<void()> act;
    };
    const refusal table[] = {
        {CDZ_E_NOT_FOUND, "no/such/model", [&] { rt.open("no/such/model"); }},
        {CDZ_E_USAGE, "temprature", [&] { rt.generate(cadenza::request(model).with(rt.parse("[generation]\ntemprature = 1\n"))); }},
        {CDZ_E_NOT_FOUND, "no-such.ini", [&] { rt.load("no-such.ini"); }},
        {CDZ_E_INPUT, "nan", [&] { cadenza::generator(1).sample({NAN, 0.0F}); }},
    };
    for (const refusal &each : table) {
        cdz_status code = CDZ_OK;
        std::string sentence;
        try {
            each.act();
        } catch (const cadenza::error &e) {
            code = e.code();
            sentence = e.what();
        }
        if (code != each.code) std::printf("%s: status %d: %s\n", each.sentence, code, sentence.c_str());
        CHECK(code == each.code && sentence.find(each.sentence) != std::string::npos);
    }
    CHECK(cadenza::generator(1).sample({0.0F, 5.0F, 1.0F}, 0) == 1);
}

int main(int argc, char **argv)
{
    std::optional<cadenza::result> last;
    {
        cadenza::runtime rt;
        const cadenza::model model = rt.open(argc > 1 ? argv[1] : "models/pocket-dictionary");
        generates(rt, model);
        records(rt, model);
        streams(rt, model);
        drops(rt, model);
        refuses(rt, model);
        last = rt.generate(cadenza::request(model).prompt("dog (noun):").with(rt.parse(greedy)));
    }
    CHECK(!last->text(0).empty()); /* it outlives what it came from */
    if (!failures) std::puts("all well");
    return failures != 0;
}
