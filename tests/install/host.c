/* A program that has everything in a shared library. */
int beside(int argc, char **argv);

int main(int argc, char **argv) {
    return beside(argc, argv);
}
