/* program.c or program.cpp, whose main is story, in a program that has two other Rust libraries. Compiles as both. */
#ifdef __cplusplus
extern "C" {
#endif
unsigned other_run(void);
unsigned second_run(void);
int beside(int argc, char **argv);
#ifdef __cplusplus
}
#endif
int story(int argc, char **argv);

int beside(int argc, char **argv) {
    int status;
    if (other_run() != 42 || second_run() != 42)
        return 3;
    status = story(argc, argv);
    if (other_run() != 42 || second_run() != 42)
        return 4;
    return status;
}

#ifndef SHARED
int main(int argc, char **argv) {
    return beside(argc, argv);
}
#endif
